import { refusal } from './refusal.js';

/** Set by the client itself, so a caller's copy is dropped. */
const OWN = new Set(['content-length', 'connection', 'keep-alive']);
/** Would change where a request goes or how it is framed (request smuggling, virtual host confusion). */
const REFUSED = new Set([
  'host',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'proxy-authorization',
  'proxy-connection',
]);
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// oxlint-disable-next-line no-control-regex -- RFC 9110 5.5: no control characters but tab
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/**
 * Headers of a request with names in lower case.
 * @throws ToolError EGRESS_REFUSED for an illegal name or value (header injection) and for `Host` and framing headers
 */
export function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const clean: Record<string, string> = Object.create(null);
  for (const [rawName, value] of Object.entries(headers)) {
    const name = rawName.toLowerCase();
    if (OWN.has(name)) continue;
    if (REFUSED.has(name) || !NAME.test(name) || !VALUE.test(value)) throw refusal('url', 'header');
    clean[name] = value;
  }
  return { ...clean };
}
