import type { ListedTool } from './commands/tools.js';
import { suggestion } from './did-you-mean.js';
import { Refused, type Gateway } from './gateway.js';

/** A tool by its name. @throws Refused, with the name that was meant where one is near */
export async function toolNamed(gateway: Gateway, name: string, signal: AbortSignal): Promise<ListedTool> {
  try {
    return (await gateway.ask<ListedTool>('GET', `/api/v1/tools/${encodeURIComponent(name)}`, undefined, signal)).body;
  } catch (error) {
    if (!(error instanceof Refused) || error.body.code !== 'TOOL_NOT_FOUND') throw error;
    const { body } = await gateway
      .ask<ListedTool[]>('GET', '/api/v1/tools', undefined, signal)
      .catch(() => ({ body: [] }));
    const meant = suggestion(
      name,
      body.map((tool) => tool.name),
    );
    throw new Refused(error.status, { ...error.body, error: error.body.error + meant });
  }
}
