import { Controller } from '@nestjs/common';
import { hasRight, type OwnRoles } from '@toolfleet/access';
import type { Principal } from '@toolfleet/contracts';
import type { RoleSummary } from '@toolfleet/contracts/resources';
import { ROLES } from '@toolfleet/contracts/roles';
import type { SignInSettings } from '@toolfleet/fleet-file';
import { Caller } from '../server/guards.js';
import { Serves } from '../server/routes.js';

/** The roles of this fleet, and the groups of its OpenID provider that give them. */
export class FleetRoles {
  constructor(
    private readonly own: OwnRoles,
    private readonly signIn: SignInSettings,
  ) {}

  /** @param caller sees groups when people of its tenant sign in, or when it operates the fleet */
  shownTo(caller: Principal): RoleSummary[] {
    const isOfTenant = this.signIn.tenant === undefined || this.signIn.tenant === caller.tenantId;
    const byGroup = isOfTenant || hasRight(caller, 'operate_fleet') ? Object.entries(this.signIn.roles ?? {}) : [];
    const summary = (name: string, declared: RoleSummary['declared'], rights: RoleSummary['rights']): RoleSummary => ({
      name,
      rights,
      declared,
      groups: byGroup.filter(([, roles]) => roles.includes(name)).map(([group]) => group),
    });
    const rows = (roles: OwnRoles, declared: RoleSummary['declared']) =>
      Object.entries(roles).map(([name, rights]) => summary(name, declared, [...rights]));
    return [...rows(ROLES, 'built_in'), ...rows(this.own, 'config')];
  }
}

/** What keys and signed-in users can be. */
@Controller()
export class RolesController {
  constructor(private readonly roles: FleetRoles) {}

  @Serves('GET /api/v1/roles')
  list(@Caller() caller: Principal): RoleSummary[] {
    return this.roles.shownTo(caller);
  }
}
