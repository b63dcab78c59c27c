import { isJsonObject, type Json } from '@toolfleet/contracts';

/**
 * Plain XML of a JSON value: a member becomes an element, an array repeats it. Names and wrappers of the document's
 * `xml` hints are not applied; a caller who needs them sends the XML text itself as `body`.
 */
export function xmlOf(root: string, value: Json): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${element(elementName(root), value)}`;
}

function element(name: string, value: Json): string {
  if (Array.isArray(value)) return value.map((item) => element(name, item)).join('');
  if (value === null) return `<${name}/>`;
  if (!isJsonObject(value)) return `<${name}>${escaped(String(value))}</${name}>`;
  const members = Object.entries(value).map(([member, item]) => element(elementName(member), item));
  return `<${name}>${members.join('')}</${name}>`;
}

/** Characters that are legal in an XML name; the rest becomes `_`. */
function elementName(name: string): string {
  const legal = name.replace(/[^\p{L}\p{N}._:-]/gu, '_');
  return /^[\p{L}_]/u.test(legal) ? legal : `_${legal}`;
}

function escaped(text: string): string {
  return (
    text
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      // oxlint-disable-next-line no-control-regex -- XML 1.0 forbids them in any spelling
      .replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F]/g, '')
  );
}
