import { toToolError, toUsd } from '@toolfleet/contracts';
import type { Observer } from '../call.js';
import type { EnginePorts } from '../ports.js';

/** Span `tool_execution` around every call. */
export function trace(ports: Pick<EnginePorts, 'tracer'>): Observer {
  return (seen, next) =>
    ports.tracer.span(
      'tool_execution',
      { 'tool.name': seen.request.toolName, 'call.id': seen.request.callId },
      async (span) => {
        try {
          const result = await next(seen);
          span.set({
            'tool.category': seen.tool?.category ?? '',
            'tool.success': result.ok,
            'tool.cost_usd': toUsd(result.usage.microUsd),
            'tool.provenance': result.provenance,
            'tool.attempts': result.attempts,
            ...(result.failure ? { 'error.code': result.failure.code, 'error.type': result.failure.errorType } : {}),
          });
          return result;
        } catch (thrown) {
          const error = toToolError(thrown);
          span.set({
            'tool.category': seen.tool?.category ?? '',
            'tool.success': false,
            'tool.cost_usd': 0,
            'error.code': error.code,
            'error.type': error.entry.class,
          });
          throw error;
        }
      },
    );
}
