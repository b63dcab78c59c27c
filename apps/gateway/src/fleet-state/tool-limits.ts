import type { Principal } from '@toolfleet/contracts';
import { rateKeyOf, toolRateOf, type EngineSettings, type RateLimiter } from '@toolfleet/engine';
import type { ToolList } from '../catalog/tool-list.js';

/** Buckets looked at for one answer; further tools are shown without what is left. */
const MOST_LOOKED_AT = 200;

/** Calls per minute of a tool for a tenant. */
export interface ToolLimit {
  tool: string;
  per_minute: number;
  /** Null: not looked at. */
  left: number | null;
}

/** Rate limits of the tools a caller may use, with what its tenant has left. Looking takes nothing. */
export class ToolLimits {
  constructor(
    private readonly list: ToolList,
    private readonly limiter: RateLimiter,
    private readonly settings: Pick<EngineSettings, 'rateLimits'>,
  ) {}

  /** Limited tools by name. */
  async of(caller: Principal): Promise<ToolLimit[]> {
    const { tools } = await this.list.all(caller);
    const limited = tools.flatMap((tool) => {
      const rate = toolRateOf(tool, this.settings);
      return rate ? [{ name: tool.name, rate }] : [];
    });
    return Promise.all(
      limited.map(async ({ name, rate }, index) => ({
        tool: name,
        per_minute: rate.perPeriod,
        left: index < MOST_LOOKED_AT ? await this.limiter.peek(rateKeyOf(caller.tenantId, name), rate) : null,
      })),
    );
  }
}
