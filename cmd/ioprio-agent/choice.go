package main

import (
	"fmt"
	"slices"
	"strings"
)

// choice is a flag with few values.
type choice struct {
	value   string
	allowed []string
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Type implements pflag.Value: the word in the help.
func (c *choice) Type() string { return "name" }

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("want one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}
