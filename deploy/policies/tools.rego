# Who may call what, with which arguments. Everything is allowed that no rule denies; dangerous tools stay closed to public
# callers whatever is written here. Add a case to cases.json with every rule. The language: docs/policy.md.
package tools

# Tools that change files require the role of every caller.
deny contains "file_write requires admin role" if {
	input.tool == "file_write"
	not is_admin
}

deny contains "file_edit requires admin role" if {
	input.tool == "file_edit"
	not is_admin
}

deny contains "file_delete requires admin role" if {
	input.tool == "file_delete"
	not is_admin
}

# An agent acts on what it reads. Text on a page must not change files, no matter who started the agent.
deny contains msg if {
	input.tool in {"file_write", "file_edit", "file_delete"}
	input.user.via == "delegation"
	not "agent_files" in input.user.roles
	msg := sprintf("%s on behalf of an agent requires role agent_files", [input.tool])
}

is_admin if "admin" in input.user.roles
