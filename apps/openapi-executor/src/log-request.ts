import type { Logger } from '@toolfleet/telemetry';
import type { OutgoingRequest } from './send-request.js';

const SECRET_NAME = /authorization|token|secret|password|api_?-?key|cookie/i;
const MAX_BODY = 2_000;

/** Logs a request before it gets its credentials; values under secret names are masked, also inside a JSON body. */
export function logRequest(logger: Logger): (request: Readonly<OutgoingRequest>, tool: string) => void {
  return (request, tool) => {
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, SECRET_NAME.test(name) ? '***' : value]),
    );
    const target = request.target.replace(/([?&])([^=&]+)=([^&]*)/g, (pair, mark: string, name: string) =>
      SECRET_NAME.test(name) ? `${mark}${name}=***` : pair,
    );
    logger.info(
      { tool, method: request.method, origin: request.origin, target, headers, body: bodyOf(request) },
      'request',
    );
  };
}

function bodyOf({ body }: Readonly<OutgoingRequest>): string | undefined {
  if (body === undefined) return undefined;
  if (typeof body !== 'string') return `${body.byteLength} bytes`;
  const masked = body.replace(/"([^"]{1,100})"\s*:\s*"(?:[^"\\]|\\.)*"/g, (pair, name: string) =>
    SECRET_NAME.test(name) ? `"${name}":"***"` : pair,
  );
  return masked.slice(0, MAX_BODY);
}
