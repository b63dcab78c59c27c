import { ToolError } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { RecentMap, type Clock } from '@toolfleet/resilience';
import robotsParser from 'robots-parser';
import type { JobBounds } from '@toolfleet/resilience/child-pool';
import type { BoundedWork } from '../bounded/bounded-work.js';

/** Product token for robots.txt files. */
const ROBOT_NAME = 'toolfleet';
/** How long the rules of a file are cached (RFC 9309, 2.4: at most 24 h). */
const CACHE_MS = 3_600_000;
const MAX_ORIGINS = 1_000;
/** RFC 9309, 2.5: at least 500 KiB have to be read. */
const MAX_BYTES = 512 * 1024;
const TIMEOUT_MS = 5_000;

/** Product of the lengths of rules and URL up to which this process compares them, in about a millisecond. */
const MAX_INLINE_WORK = 256 * 1024;
const RULES_MS = 2_000;

interface Rules {
  /** Undefined if everything is allowed. */
  text: string | undefined;
  readAt: number;
}

/**
 * Applies robots.txt of the origins of pages (RFC 9309): 4xx allows everything; 5xx and no response allow nothing. The files
 * are fetched through the egress client, like the pages.
 */
export class Robots {
  private readonly known = new RecentMap<string, Promise<Rules>>({ max: MAX_ORIGINS });

  constructor(
    private readonly egress: EgressClient,
    private readonly clock: Clock,
    private readonly bounded: BoundedWork,
  ) {}

  /** @throws ToolError if robots.txt disallows the page or cannot be read */
  async check(url: string, caller: Omit<JobBounds, 'timeoutMs'>): Promise<void> {
    const { origin, pathname } = new URL(url);
    if (pathname === '/robots.txt') return;
    const { text } = await this.getRules(origin, caller.signal);
    if (text !== undefined && !(await this.allows(text, url, caller)))
      throw new ToolError('TOOL_ERROR', {
        message: `robots.txt of ${origin} does not allow fetching this page`,
        details: { reason: 'robots' },
      });
  }

  private async allows(rules: string, url: string, caller: Omit<JobBounds, 'timeoutMs'>): Promise<boolean> {
    const address = `${new URL(url).origin}/robots.txt`;
    if (rules.length * url.length <= MAX_INLINE_WORK) return isAllowedByRobots(rules, address, ROBOT_NAME, url);
    const job = { kind: 'robots', rules, address, robot: ROBOT_NAME, url } as const;
    return this.bounded.run(job, { timeoutMs: RULES_MS, ...caller });
  }

  private async getRules(origin: string, signal: AbortSignal): Promise<Rules> {
    const known = await this.known.get(origin)?.catch(() => undefined);
    if (known && this.clock.monotonic() - known.readAt < CACHE_MS) return known;
    const reading = this.read(origin, signal);
    this.known.set(origin, reading);
    reading.catch(() => this.known.delete(origin));
    return reading;
  }

  private async read(origin: string, signal: AbortSignal): Promise<Rules> {
    const readAt = this.clock.monotonic();
    const address = `${origin}/robots.txt`;
    const response = await this.egress.request({
      url: address,
      signal,
      maxBytes: MAX_BYTES,
      onOverflow: 'truncate',
      timeouts: { totalMs: TIMEOUT_MS },
    });
    if (response.status >= 500) {
      response.body.cancel();
      throw new ToolError('TOOL_ERROR', {
        message: `robots.txt of ${origin} cannot be read (HTTP ${response.status}), so the page is not fetched`,
        details: { reason: 'robots' },
      });
    }
    if (response.status >= 300) {
      response.body.cancel();
      return { text: undefined, readAt };
    }
    return { text: (await response.body.bytes()).toString('utf8'), readAt };
  }
}

/** The package is CommonJS; its types declare a `default` that does not exist at run time. */
const parseRobots = robotsParser as unknown as typeof robotsParser.default;

/**
 * Tells whether the rules of a robots.txt file allow a robot to fetch a page. The time is proportional to rules × URL, both of
 * which are untrusted, so large ones are evaluated in a child process.
 * @param address URL of the file
 */
export function isAllowedByRobots(rules: string, address: string, robot: string, url: string): boolean {
  return parseRobots(address, rules).isAllowed(url, robot) !== false;
}
