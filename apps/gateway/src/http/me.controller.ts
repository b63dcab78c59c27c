import { Controller, Get } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { VERSION } from '@toolfleet/service';
import { Caller } from '../auth/auth.guard.js';
import { isAdmin, isOperator } from '../auth/roles.js';
import { tierOf } from '../auth/key-limit.guard.js';
import type { Tier } from '../auth/tiers.js';

/** Rate classes by name, by injection. */
export class Tiers {
  constructor(readonly byName: Readonly<Record<string, Tier>>) {}

  get names(): string[] {
    return Object.keys(this.byName);
  }
}

/** What a credential stands for, and what it may do: a client shows what is possible instead of finding out by refusals. */
@Controller('api/v1/me')
export class MeController {
  constructor(private readonly tiers: Tiers) {}

  @Get()
  me(@Caller() caller: Principal) {
    const tier = tierOf(caller, this.tiers.byName);
    return {
      tenant_id: caller.tenantId,
      user_id: caller.userId,
      roles: caller.roles,
      admin: isAdmin(caller),
      operator: isOperator(caller),
      via: caller.via,
      key_id: caller.keyId ?? null,
      tools: caller.tools,
      tier: {
        name: caller.tier ?? null,
        requests_per_minute: tier.minute,
        requests_per_hour: tier.hour,
        requests_per_day: tier.day,
      },
      version: VERSION,
    };
  }
}
