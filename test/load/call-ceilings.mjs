/**
 * Maximum function invocations per call on main threads, by `path, entry point`: 3 % above what the calls take on a busy machine, where the work
 * of timers is shared by fewer calls. test/e2e/call-counts.spec.ts holds the fleet to them. Raise one only in the change that adds the work,
 * and say there what the work is for.
 */
export const CEILINGS = {
  'MCP over HTTP, mcp': 4_790,
  'MCP over stdio, mcp': 3_920,
  'OpenAPI GET, http': 4_390,
  'OpenAPI POST, http': 4_630,
  'calculator, http': 3_390,
};
