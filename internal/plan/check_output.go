package plan

import (
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// whyMissing returns the reason why the result of a step has no value at the pointer of a
// reference, or no array if one is needed. It returns "" if it may have one.
func (src *source) whyMissing(d *draft, ref *Ref, array bool) string {
	path := slices.Collect(jsonrpc.PointerTokens(ref.Pointer))
	array = array && !slices.Contains(path, "*")
	if d.loops {
		if len(path) == 0 {
			return ""
		}
		if _, ok := itemIndex(path[0]); !ok && path[0] != "*" {
			return "is an array: want an index or * in place of " + quoted(path[0])
		}
		path = path[1:]
	}
	switch wants := src.output(d).TypesAt(path); {
	case wants == nil:
	case len(wants) == 0:
		return "has nothing at " + quoted(ref.Pointer) + suggestMember(d.step.Tool.Output, path)
	case array && !slices.Contains(wants, "array"):
		return "has no array there"
	}
	return ""
}

// suggestMember returns the end of a message about a path that does not exist: a member that may
// have been meant. It handles members and elements, not references and combinators.
func suggestMember(output []byte, path []string) string {
	for _, name := range path {
		if items := jsonrpc.Get(output, "items"); items != nil {
			if _, ok := itemIndex(name); !ok && name != "*" {
				return "; there is an array: want an index or * in place of " + quoted(name)
			}
			output = items
			continue
		}
		members := jsonrpc.Get(output, "properties")
		if output = jsonrpc.Get(members, name); output != nil {
			continue
		}
		return newNames(slices.Collect(jsonrpc.Names(members))).suggest(name)
	}
	return ""
}

// output returns the schema of a step's result. An invalid schema allows any result.
func (src *source) output(d *draft) *schema.Schema {
	s, known := src.results[d.called]
	if !known {
		s, _ = schema.Compile(d.step.Tool.Output)
		src.results[d.called] = s
	}
	return s
}

// itemIndex parses a pointer token as an array index.
func itemIndex(token string) (int, bool) {
	i, err := strconv.ParseUint(token, 10, 31)
	return int(i), err == nil && strconv.FormatUint(i, 10) == token
}
