// Command crddoc writes the reference of the custom resources, in Markdown, from their CRDs, which are
// generated from the types.
//
//	crddoc CRD.yaml… >crd.md
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const head = `# Custom resources

<!-- Written by operator/hack/crddoc from the CRDs. Change operator/api/v1alpha1, then: make -C operator generate -->

API group ` + "`ramcloud.dev`" + `, version ` + "`v1alpha1`" + `. What every field means, its default, and what is accepted. Kubernetes'
own types (affinity, resources, …) are not unfolded: ` + "`kubectl explain`" + ` shows them.
`

// foreign are fields whose inside is Kubernetes'.
var foreign = map[string]bool{
	"resources": true, "affinity": true, "tolerations": true, "topologySpread": true, "conditions": true, "pullSecrets": true,
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crddoc CRD.yaml… >crd.md")
		os.Exit(2)
	}
	fmt.Print(head)
	for _, path := range os.Args[1:] {
		if err := document(os.Stdout, path); err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func document(w io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		schema := version.Schema.OpenAPIV3Schema
		fmt.Fprintf(w, "\n## %s\n\nShort name `%s`. %s\n", crd.Spec.Names.Kind, strings.Join(crd.Spec.Names.ShortNames, "`, `"), inline(schema.Description))
		for _, part := range []string{"spec", "status"} {
			fmt.Fprintf(w, "\n### %s of %s\n", part, crd.Spec.Names.Kind)
			properties := schema.Properties[part]
			rules(w, part, properties.XValidations)
			fmt.Fprint(w, "\n| field | type | default | meaning |\n|---|---|---|---|\n")
			if err := rows(w, part, properties); err != nil {
				return err
			}
		}
	}
	return nil
}

func rows(w io.Writer, prefix string, schema apiextensions.JSONSchemaProps) error {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		path := prefix + "." + name
		preset := ""
		if field.Default != nil && string(field.Default.Raw) != "{}" {
			var value any
			if err := json.Unmarshal(field.Default.Raw, &value); err != nil {
				return err
			}
			preset = fmt.Sprintf("`%v`", value)
		}
		fmt.Fprintf(w, "| `%s`%s | %s | %s | %s |\n", path, required(schema, name), kind(field), preset, meaning(field))
		if foreign[name] {
			continue
		}
		inside := field
		if field.Items != nil && field.Items.Schema != nil {
			inside, path = *field.Items.Schema, path+"[]"
		}
		if err := rows(w, path, inside); err != nil {
			return err
		}
	}
	return nil
}

func required(schema apiextensions.JSONSchemaProps, name string) string {
	if slices.Contains(schema.Required, name) {
		return " (required)"
	}
	return ""
}

func kind(field apiextensions.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "quantity"
	case len(field.Enum) > 0:
		var values []string
		for _, value := range field.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		return strings.Join(values, ", ")
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + kind(*field.Items.Schema)
	case field.AdditionalProperties != nil:
		return "map"
	}
	return field.Type
}

func meaning(field apiextensions.JSONSchemaProps) string {
	parts := []string{inline(field.Description)}
	if field.Minimum != nil && field.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%g to %g.", *field.Minimum, *field.Maximum))
	} else if field.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %g.", *field.Minimum))
	}
	for _, rule := range field.XValidations {
		if text := accepted(rule); text != "" {
			parts = append(parts, text+".")
		}
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// accepted is the part of a rule's message that says what is accepted.
func accepted(rule apiextensions.ValidationRule) string {
	text := rule.Message
	if text == "" {
		text, _, _ = strings.Cut(strings.TrimPrefix(rule.MessageExpression, "'"), "'.format(")
	}
	_, after, found := strings.Cut(text, "accepted: ")
	if !found || strings.Contains(after, "%") {
		return ""
	}
	return "Accepted: " + inline(after)
}

// rules lists what is checked over several fields.
func rules(w io.Writer, part string, list []apiextensions.ValidationRule) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\nChecked over several fields of %s:\n\n", part)
	for _, rule := range list {
		text := rule.Message
		if text == "" {
			text, _, _ = strings.Cut(strings.TrimPrefix(rule.MessageExpression, "'"), "'.format(")
		}
		text = strings.NewReplacer("%s", "…", "%d", "…").Replace(text)
		fmt.Fprintf(w, "- %s\n", inline(text))
	}
}

// inline makes text fit a table's cell.
func inline(text string) string {
	return strings.NewReplacer("\n", " ", "|", "\\|", "<", "&lt;").Replace(strings.TrimSpace(text))
}
