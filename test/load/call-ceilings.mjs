/**
 * Maximum function invocations per call on main threads, by `path, entry point`: 3 % above the counts of `npm run bench -- counts`, with a
 * spread of 2 % between idle and busy machines. test/e2e/call-counts.spec.ts holds the fleet to them. Raise one only in the change that adds the work, and
 * say there what the work is for.
 */
export const CEILINGS = {
  'MCP over HTTP, mcp': 4_310,
  'MCP over stdio, mcp': 3_540,
  'OpenAPI GET, http': 3_940,
  'OpenAPI POST, http': 4_130,
  'calculator, http': 3_110,
};
