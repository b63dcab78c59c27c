/**
 * Maximum function invocations per call on main threads, by `path, entry point`: what the calls take, plus 3 %. test/e2e/call-counts.spec.ts
 * holds the fleet to them. Raise one only in the change that adds the work, and say there what the work is for.
 */
export const CEILINGS = {
  'MCP over HTTP, mcp': 4_590,
  'MCP over stdio, mcp': 3_750,
  'OpenAPI GET, http': 4_200,
  'OpenAPI POST, http': 4_430,
  'calculator, http': 3_250,
};
