package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

func writeJSON[T any](w io.Writer, v T) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// row is a line of a table, with lines below it that belong to it.
type row struct {
	cells []string
	notes []string
}

// writeTable aligns cells and indents notes. The last cell of a row is not padded.
func writeTable(w io.Writer, rows []row) error {
	var widths []int
	for _, r := range rows {
		for i, cell := range r.cells {
			r.cells[i] = printable(cell)
			cell = r.cells[i]
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r.cells {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, note := range r.notes {
			b.WriteString("    " + printable(note) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeReport prints a line for each control and, where one is not ok, the file, the reason and the way out.
func writeReport(w io.Writer, r ioprio.Report) error {
	rows := []row{{cells: []string{"STATUS", "SUBJECT", "SETTING", "WANT", "GOT"}}}
	for _, f := range r.Findings {
		want := orDash(f.Want)
		if f.Note != "" {
			want += " (" + f.Note + ")"
		}
		next := row{cells: []string{string(f.Status), f.Subject, f.Setting, want, orDash(f.Got)}}
		if f.Status != ioprio.StatusOK {
			for _, note := range [][2]string{{"file", f.Source}, {"why", f.Reason}, {"do", f.Fix}} {
				if note[1] != "" {
					next.notes = append(next.notes, fmt.Sprintf("%-5s %s", note[0]+":", note[1]))
				}
			}
		}
		rows = append(rows, next)
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "verdict: %s\n", r.Verdict)
	return err
}

// writeDisks prints the paths with their chains, then the disks.
func writeDisks(w io.Writer, r ioprio.Report) error {
	rows := []row{{cells: []string{"PATH", "ROLES", "CHAIN"}}}
	for _, p := range r.Paths {
		rows = append(rows, row{cells: []string{p.Path, strings.Join(p.Roles, ","), strings.Join(p.Chain, " > ")}})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	rows = []row{{cells: []string{"DISK", "DEV", "CLASS", "ROLES", "REASON"}}}
	for _, d := range r.Disks {
		rows = append(rows, row{cells: []string{d.Name, d.Dev, string(d.Class), strings.Join(d.Roles, ","), orDash(d.Reason)}})
	}
	return writeTable(w, rows)
}

func writePlan(w io.Writer, changes []ioprio.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "nothing to change")
		return err
	}
	rows := []row{{cells: []string{"SUBJECT", "SETTING", "FROM", "TO", "VIA", "TARGET"}}}
	for _, c := range changes {
		rows = append(rows, row{cells: []string{c.Subject, c.Setting, orDash(c.From), c.To, string(c.Via), c.Target}})
	}
	return writeTable(w, rows)
}

// printable keeps what a file or a name holds on one line.
func printable(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
