package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// k3sConfigFile is the default of --config (k3s pkg/configfilearg/defaultparser.go).
const k3sConfigFile = "/etc/rancher/k3s/config.yaml"

// k3sFlag is a flag of k3s, given on the command line or in a configuration file.
type k3sFlag struct {
	name string
	setting
}

// readConfig reads a k3s configuration file and the files in its .d directory as the flags that they stand for. None of
// them has to exist: k3s starts without the file that it was told to read, too (k3s pkg/configfilearg/parser.go, Parse).
func readConfig(t tree, file string) ([]k3sFlag, error) {
	files := []string{file}
	entries, err := t.readDir(file + ".d")
	if err != nil {
		return nil, fmt.Errorf("reading k3s configuration: %w", err)
	}
	for _, e := range entries {
		ext := strings.ToLower(path.Ext(e.Name()))
		if !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, path.Join(file+".d", e.Name()))
		}
	}
	var order []string
	values := make(map[string][]setting)
	for _, name := range files {
		data, err := t.readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading k3s configuration: %w", err)
		}
		keys, err := parseConfig(data)
		if err != nil {
			return nil, fmt.Errorf("reading k3s configuration %s: %w", name, err)
		}
		for _, k := range keys {
			if _, ok := values[k.name]; !ok {
				order = append(order, k.name)
			}
			if !k.add {
				values[k.name] = []setting{}
			}
			for _, v := range k.values {
				values[k.name] = append(values[k.name], setting{v, name})
			}
		}
	}
	var flags []k3sFlag
	for _, name := range order {
		for _, v := range values[name] {
			flags = append(flags, k3sFlag{name, v})
		}
	}
	return flags, nil
}

// configKey is one key of a configuration file.
type configKey struct {
	name   string
	values []string
	add    bool // the key was NAME+: to what earlier files have, rather than instead of it
}

// parseConfig reads a k3s configuration file. Its keys are any flag of k3s, so unknown ones are not an error, and the
// nodes are read rather than Go values, so that a value is the text in the file ("0700" is no number).
func parseConfig(data []byte) ([]configKey, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := yamlTarget(doc.Content[0])
	if top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("yaml: line %d: not a mapping of flags to values", top.Line)
	}
	var keys []configKey
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, add := strings.CutSuffix(yamlTarget(top.Content[i]).Value, "+")
		keys = append(keys, configKey{name, texts(yamlTarget(top.Content[i+1])), add})
	}
	return keys, nil
}

// texts is the value or values of a key. A flag takes no mapping.
func texts(n *yaml.Node) []string {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return []string{""}
		}
		return []string{n.Value}
	case yaml.SequenceNode:
		var values []string
		for _, item := range n.Content {
			if item = yamlTarget(item); item.Kind == yaml.ScalarNode {
				values = append(values, texts(item)...)
			}
		}
		return values
	}
	return nil
}

// yamlTarget is the node that an alias stands for.
func yamlTarget(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
