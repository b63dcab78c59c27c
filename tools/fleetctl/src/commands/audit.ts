import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { jsonText, paint, plain } from '../terminal.js';

/** Position of an audit line in its chain. */
const PLACE = /"audit":\{"chain":"([0-9a-f-]{36})","seq":(\d+),"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}/;
/** Fields of every audit line. */
const IS_AUDIT = /"audit":|"message":"(?:call finished|audit log (?:begins|ends))"/;
const NO_HASH = '0'.repeat(64);
const ENDS = '"message":"audit log ends"';

interface Fault {
  file: string;
  line: number;
  chain?: string;
  fault: string;
}

interface Chain {
  lines: number;
  /** Sequence number and hash of the previous line. */
  seq: number;
  hash: string;
  /** The process that wrote the chain shut down properly. */
  ended: boolean;
}

/** Verifies audit lines in the order in which they were written. Chains of several gateways may be interleaved. */
class AuditCheck {
  readonly chains = new Map<string, Chain>();
  readonly faults: Fault[] = [];

  read(text: string, file: string, line: number): void {
    const place = PLACE.exec(text);
    if (!place) {
      if (IS_AUDIT.test(text))
        this.faults.push({ file, line, fault: 'an audit line whose place in the chain is damaged' });
      return;
    }
    const [field = '', name = '', seqText = '', prev = '', hash = ''] = place;
    const seq = Number(seqText);
    const unhashed = text.replace(field, field.replace(`"hash":"${hash}"`, '"hash":""'));
    const fault = (what: string) => this.faults.push({ file, line, chain: name, fault: what });
    if (createHash('sha256').update(unhashed).digest('hex') !== hash) fault(`line ${seq} of the chain was changed`);
    const chain = this.chains.get(name);
    this.#follow(chain, { seq, prev }, fault);
    if (chain && seq <= chain.seq) return;
    const lines = (chain?.lines ?? 0) + 1;
    this.chains.set(name, { lines, seq, hash, ended: text.includes(ENDS) });
  }

  #follow(chain: Chain | undefined, { seq, prev }: { seq: number; prev: string }, fault: (what: string) => void): void {
    const expected = (chain?.seq ?? 0) + 1;
    if (seq < expected) return fault(`line ${seq} of the chain comes after line ${expected - 1}: moved or repeated`);
    if (seq > expected) {
      const missing = seq - 1 === expected ? `line ${expected}` : `lines ${expected} to ${seq - 1}`;
      return fault(`${missing} of the chain ${seq - 1 === expected ? 'is' : 'are'} missing or moved`);
    }
    if (prev !== (chain?.hash ?? NO_HASH)) fault(`line ${seq} does not follow what is before it: that was replaced`);
  }
}

/** `fleetctl audit verify FILE…`. */
export const audit: Command = {
  usage: 'audit verify FILE…',
  verbs: ['verify'],
  known: [],
  async run({ words, json, terminal }) {
    const [verb, ...files] = words;
    if (verb !== 'verify' || files.length === 0) {
      throw new CliError('usage: fleetctl audit verify FILE… (rotated files oldest first)', EXIT.usage);
    }
    const check = new AuditCheck();
    for (const file of files) await readLines(file, (text, line) => check.read(text, file, line));
    const { faults } = check;
    const chains = [...check.chains].map(([chain, { lines, seq, hash, ended }]) => ({
      chain,
      lines,
      seq,
      hash,
      ended,
    }));
    if (chains.length === 0 && faults.length === 0) throw new CliError('No audit lines in these files', EXIT.failed);
    if (json) terminal.out(`${jsonText({ intact: faults.length === 0, chains, faults }, 2)}\n`);
    else {
      for (const { file, line, chain, fault } of faults) {
        terminal.out(
          `${paint(terminal, 'red', plain(`${file}:${line}`))} ${plain(fault)}${chain ? ` (${chain})` : ''}\n`,
        );
      }
      for (const { chain, lines, hash, ended } of chains) {
        terminal.out(
          `${chain}  ${lines} lines, last hash ${hash}${ended ? '' : ', not ended: running, killed or cut'}\n`,
        );
      }
    }
    return faults.length === 0 ? EXIT.ok : EXIT.failed;
  },
};

async function readLines(file: string, each: (text: string, line: number) => void): Promise<void> {
  const lines = createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Infinity });
  let line = 0;
  try {
    for await (const text of lines) each(text, (line += 1));
  } catch (error) {
    throw new CliError(
      `${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`,
      EXIT.failed,
    );
  }
}
