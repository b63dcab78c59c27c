import type { Answer, TestFleet } from './test-fleet.js';

const PREFIX = 'io.modelcontextprotocol/';
const REVISION = '2026-07-28';

/**
 * One request about a task, of a client of revision 2026-07-28 that takes tasks.
 * @param method `tasks/get` or `tasks/cancel`
 */
export function askTask(
  fleet: TestFleet,
  method: string,
  taskId: string,
  sender: { key?: string; gateway?: number } = {},
): Promise<Answer> {
  const _meta = {
    [`${PREFIX}protocolVersion`]: REVISION,
    [`${PREFIX}clientInfo`]: { name: 'spec', version: '1' },
    [`${PREFIX}clientCapabilities`]: { extensions: { [`${PREFIX}tasks`]: {} } },
  };
  return fleet.ask({
    ...sender,
    path: '/mcp',
    body: { jsonrpc: '2.0', id: 1, method, params: { taskId, _meta } },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      'mcp-name': taskId,
    },
  });
}
