// Package agent turns a configuration into a policy and keeps a node to it.
package agent
