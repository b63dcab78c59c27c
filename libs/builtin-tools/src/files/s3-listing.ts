/** One object of a bucket's listing. */
export interface ListedObject {
  key: string;
  size: number;
  modifiedAt: number;
}

/** A page of `ListObjectsV2`. */
export interface Listing {
  objects: ListedObject[];
  /** Asks for the next page; undefined on the last one. */
  next: string | undefined;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/**
 * Reads the answer of `ListObjectsV2`: flat elements without attributes of interest, from a server the operator chose.
 * An XML parser for that would be the largest part of this process.
 */
export function readListing(xml: string): Listing {
  const objects = [...xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, content = '']) => ({
    key: field(content, 'Key'),
    size: Number(field(content, 'Size')) || 0,
    modifiedAt: Date.parse(field(content, 'LastModified')) || 0,
  }));
  const next = field(xml.replaceAll(/<Contents>.*?<\/Contents>/gs, ''), 'NextContinuationToken');
  return { objects, next: next === '' ? undefined : next };
}

function field(xml: string, name: string): string {
  const start = xml.indexOf(`<${name}>`);
  const end = xml.indexOf(`</${name}>`, start);
  return start < 0 || end < 0 ? '' : unescapeXml(xml.slice(start + name.length + 2, end));
}

function unescapeXml(text: string): string {
  return text.replaceAll(
    /&(?:#x([0-9a-fA-F]{1,6})|#(\d{1,7})|(\w{2,4}));/g,
    (whole: string, hex?: string, decimal?: string, name?: string) => {
      if (name !== undefined) return ENTITIES[name] ?? whole;
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
