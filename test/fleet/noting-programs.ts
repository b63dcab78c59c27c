/** A fleet with programs that leave notes on a counting MCP server: what specs need that kill gateways and sandbox workers under effects. */
import { startCountingMcpServer, type CountingMcpServer } from './counting-mcp-server.js';
import { TestFleet } from './test-fleet.js';

/** Starts `gateways` gateways, two sandbox workers of two threads, and the tools `run_program` and `notes_save_note`, without rate limits. */
export async function startNotingPrograms(gateways: number): Promise<{ server: CountingMcpServer; fleet: TestFleet }> {
  const server = await startCountingMcpServer();
  const wide = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
  try {
    const fleet = await TestFleet.start({
      services: { gateway: gateways, registry: 1, budget: 1, 'mcp-executor': 1, 'python-sandbox': 2 },
      tools: ['notes_save_note', 'run_program'],
      config: {
        mcp_servers: { notes: { url: `${server.origin}/mcp`, rate_limit: 0 } },
        tool_settings: { run_program: { rate_limit: 0 } },
        rate_limits: { tiers: { admin: wide, wide } },
      },
      env: { EGRESS_ALLOWED_ENDPOINTS: server.origin, PYTHON_SANDBOX_THREADS: '2' },
    });
    return { server, fleet };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
