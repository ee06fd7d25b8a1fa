// Renders a chart as `helm template` does, as far as ours needs it, where there is no helm: Go's own templates,
// sprig's functions, and those few that helm adds. A function that is not known here fails the test, as it
// should: charts are kept plain.
//
// Usage: GO111MODULE=off GOPATH=/usr/share/gocode go run render.go CHART NAMESPACE [VALUES.json]
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// Files are the chart's own.
type Files struct{ chart string }

// Get returns one of them; as with helm, one that is not there is empty.
func (files Files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(files.chart, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: render CHART NAMESPACE [VALUES.json]")
	}
	chart, namespace := os.Args[1], os.Args[2]
	values := object(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 3 {
		var given map[string]interface{}
		check(json.Unmarshal([]byte(os.Args[3]), &given))
		merge(values, given)
	}
	about := object(filepath.Join(chart, "Chart.yaml"))
	world := map[string]interface{}{
		"Values":  values,
		"Files":   Files{chart},
		"Release": map[string]interface{}{"Name": "flock", "Namespace": namespace, "Service": "Helm"},
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(sprig.TxtFuncMap()).Funcs(template.FuncMap{
		"toYaml": func(value interface{}) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"include": func(name string, data interface{}) (string, error) {
			var text strings.Builder
			err := root.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"required": func(complaint string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", complaint)
			}
			return value, nil
		},
	})
	names, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(err)
		_, err = root.New(name).Parse(string(text))
		check(err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasPrefix(base, "_") {
			continue
		}
		var text strings.Builder
		check(root.ExecuteTemplate(&text, name, world))
		// What helm says when all is done: rendered, so that it can fail, and no manifest.
		if base != "NOTES.txt" {
			fmt.Printf("---\n# Source: %s\n%s\n", base, text.String())
		}
	}
}

func object(path string) map[string]interface{} {
	text, err := os.ReadFile(path)
	check(err)
	var value map[string]interface{}
	check(yaml.Unmarshal(text, &value))
	return value
}

// What is given lies over what is there; only objects are mixed.
func merge(into, given map[string]interface{}) {
	for key, value := range given {
		old, wasObject := into[key].(map[string]interface{})
		new, isObject := value.(map[string]interface{})
		if wasObject && isObject {
			merge(old, new)
		} else {
			into[key] = value
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
