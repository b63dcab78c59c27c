import { Controller } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { Caller } from '../server/guards.js';
import { Serves } from '../server/routes.js';
import { FleetView, ToolRateLimits } from '../operator/fleet-view.js';

/** The state of the fleet. Views that show the work of other tenants are for operators. */
@Controller()
export class FleetController {
  constructor(
    private readonly view: FleetView,
    private readonly limits: ToolRateLimits,
  ) {}

  @Serves('GET /api/v1/fleet')
  async fleet() {
    return { queues: await this.view.queuesNow(), executors: this.view.executorsNow(), faults: this.view.faultsNow() };
  }

  @Serves('GET /api/v1/breakers')
  async breakers(@Caller() caller: Principal) {
    return { breakers: await this.view.breakersNow(caller) };
  }

  /** Rate limits of tools. The rest of the key's own limits is in the `X-RateLimit-*` headers of every answer. */
  @Serves('GET /api/v1/limits')
  async toolLimits(@Caller() caller: Principal) {
    return { tools: await this.limits.of(caller) };
  }
}
