# Checked by `fleetctl apply`. The operator mounts it as POLICY_DIR of the gateway: docs/policy.md.
package tools

deny contains "orders are for the support team" if {
	input.tool == "shop_getOrder"
	not "support" in input.user.roles
}
