package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// DefaultConfigFile is where the package puts the configuration.
const DefaultConfigFile = "/etc/ioprio-agent/config.yaml"

// Config is the parsed configuration file.
type Config struct {
	Policy ioprio.Policy
}

// ConfigError says which line of a configuration file is wrong.
type ConfigError struct {
	File string
	Line int    // 0 if the whole file is meant
	Key  string // "weights.k3s"; empty if the whole file is meant
	Err  error
}

func (e *ConfigError) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		at += ": " + e.Key
	}
	return at + ": " + strings.ReplaceAll(e.Err.Error(), "\n", " ")
}

func (e *ConfigError) Unwrap() error { return e.Err }

// maxConfig is far more than all keys with their comments take.
const maxConfig = 1 << 20

// LoadConfig reads a configuration file. The default file may be absent: then the defaults count.
func LoadConfig(file string) (Config, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && file == DefaultConfigFile:
		return Config{Policy: ioprio.DefaultPolicy()}, nil
	case err != nil:
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	case !info.Mode().IsRegular(): // to open a fifo would wait for its writer, and a device may have no end
		return Config{}, fmt.Errorf("reading the configuration: %s is no regular file", file)
	case info.Size() > maxConfig:
		return Config{}, fmt.Errorf("reading the configuration: %s is larger than %d bytes", file, maxConfig)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return ParseConfig(file, b)
}

// ParseConfig parses a configuration. It is stricter than yaml's KnownFields, which cannot name the key of a value of the
// wrong type: every error but one of YAML itself names file, line and key.
func ParseConfig(file string, text []byte) (Config, error) {
	c := Config{Policy: ioprio.DefaultPolicy()}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return c, nil
	case err != nil:
		return Config{}, &ConfigError{File: file, Err: err}
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return Config{}, &ConfigError{File: file, Line: more.Line, Err: errors.New("a second document in the file")}
	}
	if err := configKeys(&c.Policy).decode("", doc.Content[0]); err != nil {
		err.File = file
		return Config{}, err
	}
	return c, nil
}

// keys are the keys of a mapping, each with what takes its value.
type keys map[string]func(key string, value *yaml.Node) *ConfigError

func configKeys(p *ioprio.Policy) keys {
	return keys{
		"k3s_data_dir": text(&p.DataDir, absoluteOrAuto),
		"k3s_unit":     text(&p.Unit, serviceOrAuto),
		"scheduler":    text(&p.Scheduler, schedulerName),
		"nr_requests":  number(&p.NrRequests, 4, 2048),
		"iosched":      attributes(&p.IOSched),
		"weights": func(key string, value *yaml.Node) *ConfigError {
			err := keys{
				"system":   number(&p.Weights.System, 1, 10000),
				"k3s":      number(&p.Weights.K3s, 1, 10000),
				"kubepods": number(&p.Weights.Kubepods, 1, 10000),
			}.decode(key, value)
			if err == nil && p.Weights.Kubepods >= p.Weights.System {
				return bad(key, value, fmt.Sprintf("kubepods (%d) must be less than system (%d)", p.Weights.Kubepods, p.Weights.System))
			}
			return err
		},
	}
}

func (k keys) decode(parent string, n *yaml.Node) *ConfigError {
	n = dealias(n)
	if n.Tag == "!!null" {
		return nil // the key is there and all below it is commented out
	}
	if n.Kind != yaml.MappingNode {
		return bad(parent, n, "want keys and values")
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		key := strings.TrimPrefix(parent+"."+name.Value, ".")
		take, known := k[name.Value]
		switch {
		case !known:
			return bad(key, name, "unknown key")
		case seen[name.Value]:
			return bad(key, name, "the key is there twice")
		}
		seen[name.Value] = true
		if err := take(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// text takes a string that may also be refused by a rule.
func text(to *string, rule func(string) (string, error)) func(string, *yaml.Node) *ConfigError {
	return func(key string, n *yaml.Node) *ConfigError {
		n = dealias(n)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			return bad(key, n, fmt.Sprintf("want a string, have %s", have(n)))
		}
		value, err := rule(n.Value)
		if err != nil {
			return bad(key, n, err.Error())
		}
		*to = value
		return nil
	}
}

// number takes an integer of a range.
func number[T int | uint64](to *T, low, high T) func(string, *yaml.Node) *ConfigError {
	return func(key string, n *yaml.Node) *ConfigError {
		n = dealias(n)
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Style != 0 {
			return bad(key, n, fmt.Sprintf("want a whole number from %d to %d, have the string %q: remove the quotes", low, high, n.Value))
		}
		v, err := strconv.ParseInt(n.Value, 10, 32)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
			return bad(key, n, fmt.Sprintf("want a whole number from %d to %d, have %s", low, high, have(n)))
		}
		if v < int64(low) || v > int64(high) {
			return bad(key, n, fmt.Sprintf("%d is not from %d to %d", v, low, high))
		}
		*to = T(v)
		return nil
	}
}

var attributeName = regexp.MustCompile(`^[a-z0-9_]+$`)

// attributeValue is a number of an I/O scheduler's attribute; the kernel prints them all in decimal.
var attributeValue = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// attributes takes a mapping of attribute names to what is written to them.
func attributes(to *map[string]string) func(string, *yaml.Node) *ConfigError {
	return func(key string, n *yaml.Node) *ConfigError {
		n = dealias(n)
		if n.Tag == "!!null" {
			return nil
		}
		if n.Kind != yaml.MappingNode {
			return bad(key, n, "want names and values of attributes")
		}
		values := make(map[string]string)
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], dealias(n.Content[i+1])
			at := key + "." + name.Value
			switch {
			case !attributeName.MatchString(name.Value):
				return bad(at, name, "not the name of an attribute")
			case value.Kind != yaml.ScalarNode || !attributeValue.MatchString(value.Value):
				return bad(at, value, "want a decimal number, as the kernel prints it, have "+have(value))
			}
			switch {
			case name.Value == "slice_idle" && value.Value == "0":
				return bad(at, value, "0 turns weights off")
			case name.Value == "slice_idle_us": // one variable in the kernel (block/bfq-iosched.c, bfq_slice_idle)
				return bad(at, name, "it and slice_idle are one setting: use slice_idle")
			}
			if _, twice := values[name.Value]; twice {
				return bad(at, name, "the key is there twice")
			}
			values[name.Value] = value.Value
		}
		*to = values
		return nil
	}
}

func absoluteOrAuto(s string) (string, error) {
	if s == "auto" {
		return "", nil
	}
	if !path.IsAbs(s) {
		return "", fmt.Errorf("want auto or an absolute path, have %q", s)
	}
	return path.Clean(s), nil
}

// servicePattern admits the names of services that can run, which a template cannot (systemd.unit(5)).
var servicePattern = regexp.MustCompile(`^[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]+)?\.service$`)

func serviceOrAuto(s string) (string, error) {
	if s == "auto" {
		return "", nil
	}
	if !servicePattern.MatchString(s) {
		return "", fmt.Errorf("want auto or a name that ends in .service, have %q", s)
	}
	return s, nil
}

// schedulerPattern admits the names of I/O schedulers (include/linux/elevator.h, ELV_NAME_MAX 16 with its end).
var schedulerPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,14}$`)

func schedulerName(s string) (string, error) {
	if !schedulerPattern.MatchString(s) {
		return "", fmt.Errorf("%q is not the name of a scheduler", s)
	}
	if s == "none" { // block/blk-mq.c: nr_requests is the depth of the driver's shared tags then
		return "", errors.New("none is no scheduler: nr_requests would shrink the queue of the whole host adapter, for good")
	}
	return s, nil
}

func bad(key string, n *yaml.Node, message string) *ConfigError {
	return &ConfigError{Line: n.Line, Key: key, Err: errors.New(message)}
}

func have(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	}
	return "something else"
}

func dealias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
