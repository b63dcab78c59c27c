import type { CallResult } from '@toolfleet/contracts';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';
import { oversizeDocument, withHandle } from '../result-handle.js';

/**
 * Keeps a result above the limit of its caller (`inlineBytes`) and returns its handle with a summary. A result that cannot be
 * kept is returned whole. Results of asynchronous calls are kept anyway; their entry points summarize them.
 */
export function keepAside(ports: Pick<EnginePorts, 'shelf'>): Step {
  return step('keep aside', (next) => async (call) => {
    const result = await next(call);
    const { limits, entryPoint } = call.request;
    const { inlineBytes } = limits;
    // Pages of kept results have their own limits.
    if (inlineBytes === undefined || entryPoint === 'queue' || call.tool.binding.kind === 'result') return result;
    if (!result.ok || result.failure) return result;
    const document = oversizeDocument(result, inlineBytes);
    return document === undefined ? result : toHandle(ports, call, result, document);
  });
}

async function toHandle(
  { shelf }: Pick<EnginePorts, 'shelf'>,
  call: Call,
  result: CallResult,
  document: string,
): Promise<CallResult> {
  const kept = await shelf.keep(call.request, call.tool.name, result);
  return kept ? withHandle(call.tool.name, result, document, kept, call.request.resultReading) : result;
}
