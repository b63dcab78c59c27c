import { ProtocolError, ProtocolErrorCode, type Server } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import { callFeature, openFeatures, pageOf, type FeatureCaller } from './features.js';

/** Installs the prompts of MCP servers, under the caller's names, and the completion of arguments of prompts and resource templates. */
export function installPrompts(server: Server, caller: FeatureCaller): void {
  const { deps, principal } = caller;
  const list = { ttlMs: deps.options.listTtlMs, cacheScope: 'private' as const };

  server.setRequestHandler('prompts/list', async ({ params }) => {
    const { items, nextCursor } = pageOf((await openFeatures(deps, principal)).prompts, params?.cursor);
    return { prompts: items as never, nextCursor, ...list };
  });

  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    const definition = (await openFeatures(deps, principal)).prompt(params.name);
    if (!definition) throw unknown('prompt', params.name);
    const args: JsonObject = params.arguments === undefined ? {} : { arguments: params.arguments };
    return (await callFeature(caller, definition, args, context)) as never;
  });

  server.setRequestHandler('completion/complete', async ({ params }, context) => {
    const { ref, argument, context: known } = params;
    const features = await openFeatures(deps, principal);
    const args: JsonObject = { argument: { name: argument.name, value: argument.value } };
    if (known?.arguments) args['context'] = { arguments: known.arguments };
    const isPrompt = ref.type === 'ref/prompt';
    const resource = isPrompt ? undefined : features.resource(ref.uri);
    const definition = isPrompt ? features.prompt(ref.name) : resource?.definition;
    if (!definition) throw unknown(isPrompt ? 'prompt' : 'resource template', isPrompt ? ref.name : ref.uri);
    if (resource) args['uri'] = resource.uri;
    return (await callFeature(caller, definition, args, context)) as never;
  });
}

function unknown(what: string, name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown ${what}: ${name.slice(0, 200)}`);
}
