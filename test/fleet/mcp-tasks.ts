import type { Answer, Ask, TestFleet } from './test-fleet.js';

const PREFIX = 'io.modelcontextprotocol/';
const REVISION = '2026-07-28';

/**
 * A request of a client of revision 2026-07-28 that takes tasks.
 * @param capabilities of the client in addition to tasks
 */
export function modernRequest(
  method: string,
  params: { name?: string; taskId?: string } & Record<string, unknown>,
  capabilities: object = {},
): { body: object; headers: Record<string, string> } {
  const _meta = {
    [`${PREFIX}protocolVersion`]: REVISION,
    [`${PREFIX}clientInfo`]: { name: 'spec', version: '1' },
    [`${PREFIX}clientCapabilities`]: { extensions: { [`${PREFIX}tasks`]: {} }, ...capabilities },
  };
  const name = params.name ?? params.taskId;
  return {
    body: { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      ...(name === undefined ? {} : { 'mcp-name': name }),
    },
  };
}

/**
 * One request about a task.
 * @param method `tasks/get` or `tasks/cancel`
 */
export function askTask(
  fleet: TestFleet,
  method: string,
  taskId: string,
  sender: Pick<Ask, 'key' | 'gateway'> = {},
): Promise<Answer> {
  return fleet.ask({ ...sender, path: '/mcp', ...modernRequest(method, { taskId }) });
}
