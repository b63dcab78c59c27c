/** Makes wheels (PEP 427), so that specs need no package index. */
import { crc32, deflateRawSync } from 'node:zlib';

/** A wheel with these files and metadata. */
export interface WheelPlan {
  name: string;
  version: string;
  files: Readonly<Record<string, string>>;
  /** Lines `Requires-Dist`. */
  requires?: readonly string[];
  requiresPython?: string;
  tag?: string;
}

/** The file name and the bytes of a wheel. */
export function makeWheel(plan: WheelPlan): { file: string; wheel: Buffer } {
  const { name, version, requires = [], requiresPython = '>=3.8', tag = 'py3-none-any' } = plan;
  const base = `${name.replaceAll('-', '_')}-${version}`;
  const about = [
    'Metadata-Version: 2.1',
    `Name: ${name}`,
    `Version: ${version}`,
    `Requires-Python: ${requiresPython}`,
    ...requires.map((line) => `Requires-Dist: ${line}`),
    '',
    'Requires-Dist: not-a-header',
  ];
  const wheel = zipOf({
    ...plan.files,
    [`${base}.dist-info/METADATA`]: about.join('\n'),
    [`${base}.dist-info/WHEEL`]: `Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: ${tag}\n`,
  });
  return { file: `${base}-${tag}.whl`, wheel };
}

function zipOf(files: Readonly<Record<string, string>>): Buffer {
  const [locals, centrals]: [Buffer[], Buffer[]] = [[], []];
  let at = 0;
  for (const [path, text] of Object.entries(files)) {
    const [name, bytes] = [Buffer.from(path), Buffer.from(text)];
    const packed = deflateRawSync(bytes);
    const facts = Buffer.alloc(26);
    facts.writeUInt16LE(20, 0);
    facts.writeUInt16LE(8, 4);
    facts.writeUInt32LE(crc32(bytes), 10);
    facts.writeUInt32LE(packed.length, 14);
    facts.writeUInt32LE(bytes.length, 18);
    facts.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), facts, name, packed]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(at, 10);
    centrals.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), facts, tail, name]));
    locals.push(local);
    at += local.length;
  }
  const directory = Buffer.concat(centrals);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(locals.length, 4);
  end.writeUInt16LE(locals.length, 6);
  end.writeUInt32LE(directory.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...locals, directory, Buffer.from('PK\x05\x06'), end]);
}
