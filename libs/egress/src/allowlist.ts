import { ToolError } from '@toolfleet/contracts';

/** One allowed host, as configured: `[http[s]://]host[:port]`, `*.host`, or `*`. */
interface AllowEntry {
  /** Exact host, or the part after `*` with its leading dot; empty for `*`. */
  host: string;
  kind: 'exact' | 'wildcard' | 'any';
  /** `http://` was written: plain HTTP is allowed to this host. */
  plainHttp: boolean;
  port?: number;
}

/** What the allowlist knows about a host. */
export interface AllowVerdict {
  plainHttp: boolean;
  /** Ports listed for this host beside the general ones. */
  ports: ReadonlySet<number>;
}

const ENTRY = /^(?:(https?):\/\/)?(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)\.?(?::(\d{1,5}))?$/;

function parseEntry(raw: string): AllowEntry {
  const match = ENTRY.exec(raw.trim().toLowerCase());
  const host = match?.[2];
  if (!match || host === undefined) {
    throw new ToolError('REQUEST_INVALID', {
      message: `Not an allowlist entry: "${raw}" (host, *.host, host:port, http://host)`,
    });
  }
  const kind = host === '*' ? 'any' : host.startsWith('*.') ? 'wildcard' : 'exact';
  return {
    host: kind === 'any' ? '' : kind === 'wildcard' ? host.slice(1) : host,
    kind,
    plainHttp: match[1] === 'http',
    ...(match[3] ? { port: Number(match[3]) } : {}),
  };
}

/**
 * Domains a client may reach. Hosts are compared exactly or by a dot-bounded wildcard:
 * `*.a.b` matches `x.a.b` and `y.x.a.b`, never `a.b` or `xa.b`. Punycode is compared as it is.
 */
export class Allowlist {
  private readonly entries: readonly AllowEntry[];

  /**
   * @param anyHost development flag without which `*` is a configuration fault
   * @throws ToolError REQUEST_INVALID on a malformed entry
   */
  constructor(entries: readonly string[], anyHost = false) {
    this.entries = entries.filter((entry) => entry.trim() !== '').map(parseEntry);
    if (!anyHost && this.entries.some((entry) => entry.kind === 'any')) {
      throw new ToolError('REQUEST_INVALID', {
        message: 'The allowlist entry "*" is for development only and needs its own flag',
      });
    }
  }

  /** The verdict on a host (lower case, no trailing dot), or undefined when no entry names it. */
  find(host: string): AllowVerdict | undefined {
    const found = this.entries.filter(
      (entry) =>
        entry.kind === 'any' ||
        (entry.kind === 'exact' ? entry.host === host : host.endsWith(entry.host) && host.length > entry.host.length),
    );
    if (found.length === 0) return undefined;
    return {
      plainHttp: found.some((entry) => entry.plainHttp),
      ports: new Set(found.flatMap((entry) => (entry.port === undefined ? [] : [entry.port]))),
    };
  }
}
