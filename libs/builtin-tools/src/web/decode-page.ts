import htmlEncodingSniffer from 'html-encoding-sniffer';

/** Text of a page's bytes, by BOM, Content-Type, `<meta>` in this order (HTML Standard, 13.2.3.2); unknown ones as UTF-8. */
export function decodePage(bytes: Uint8Array, contentType: string, kind: 'html' | 'xml' | 'text'): string {
  const label = /charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1];
  const encoding = htmlEncodingSniffer(bytes, {
    ...(label ? { transportLayerEncodingLabel: label } : {}),
    // The standard's windows-1252 is for pages without any declaration; today such a page is UTF-8, if it is valid UTF-8.
    ...(kind === 'xml' ? { xml: true } : { defaultEncoding: isUtf8(bytes) ? 'utf-8' : 'windows-1252' }),
    ...(kind === 'html' ? { maxPrescanBytes: 4_096 } : {}),
  });
  try {
    return new TextDecoder(encoding).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes); // x-user-defined, replacement
  }
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
