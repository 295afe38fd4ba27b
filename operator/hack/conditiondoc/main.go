// Command conditiondoc writes the reference of conditions and their reasons, in Markdown, from the constants that name
// them: ConditionX = "X" and ReasonX = "X", each with a comment "ConditionX: what it says".
//
//	conditiondoc CLUSTER.go SERVER.go >conditions.md
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

const head = `# Conditions

<!-- Written by operator/hack/conditiondoc from cluster_status.go and server_types.go in operator/api/v1alpha1: make -C operator generate -->

` + "`kubectl get rcc NAME -o jsonpath='{.status.conditions}'`" + `. Types and reasons are stable: alerts and scripts may match them. What to do
about each reason of a cluster: [troubleshooting](../operating/troubleshooting.md#conditions-of-a-ramcloudcluster-by-reason), or
` + "`kubectl ramcloud explain`" + `. A RAMCloudServer has the condition ` + "`Ready`" + `. It is Unknown, with the reason ` + "`CoordinatorNotAnswering`" + `,
if the coordinator does not answer.
`

type row struct{ name, text string }

// rows are the constants with this prefix, in the order of the file.
func rows(file *ast.File, prefix string) (out []row, err error) {
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			name := constant.Names[0].Name
			if !strings.HasPrefix(name, prefix) || len(constant.Values) != 1 {
				continue
			}
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			text := strings.Join(strings.Fields(constant.Doc.Text()), " ")
			text, found := strings.CutPrefix(text, name+": ")
			if !found || value != strings.TrimPrefix(name, prefix) {
				return nil, fmt.Errorf("%s needs a comment that begins with \"%s: \", and the value %q", name, name, strings.TrimPrefix(name, prefix))
			}
			out = append(out, row{value, text})
		}
	}
	return out, nil
}

type part struct{ path, prefix, title, column string }

func run(cluster, server string) error {
	fmt.Print(head)
	for _, part := range []part{
		{cluster, "Condition", "Types of a RAMCloudCluster", "type"},
		{cluster, "Reason", "Reasons of a RAMCloudCluster", "reason"},
		{server, "Reason", "Reasons of a RAMCloudServer, type Ready", "reason"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), part.path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all, err := rows(file, part.prefix)
		if err != nil {
			return err
		}
		fmt.Printf("\n## %s\n\n| %s | means |\n|---|---|\n", part.title, part.column)
		for _, r := range all {
			fmt.Printf("| `%s` | %s |\n", r.name, r.text)
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conditiondoc CLUSTER.go SERVER.go >conditions.md")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
