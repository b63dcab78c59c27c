import { Controller } from '@nestjs/common';
import { hasRight, requireRight } from '@toolfleet/access';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { DECLARED_KINDS, ROUTES, type FleetDeclaration, type RouteInput } from '@toolfleet/contracts/resources';
import type { Right } from '@toolfleet/contracts/roles';
import { RedisDeclarations } from '../operator/redis-declarations.js';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';

const NAME = new RegExp(ROUTES['PUT /api/v1/declarations/{name}'].path.name['pattern'] as string);

/** Resources in the caller's tenant that files of declared fleets own (docs/declared-fleets.md). */
@Controller()
export class DeclarationsController {
  constructor(private readonly declarations: RedisDeclarations) {}

  @Serves('GET /api/v1/declarations')
  async list(@Caller() caller: Principal) {
    return (await this.declarations.list(caller.tenantId)).map((one) => ({ ...one, owned: visible(caller, one) }));
  }

  /** Each id that is claimed or released needs the right for its kind; ids of other kinds stay as they are. */
  @Serves('PUT /api/v1/declarations/{name}')
  async put(
    @Caller() caller: Principal,
    @Input() { path: { name }, body }: RouteInput<'PUT /api/v1/declarations/{name}'>,
  ) {
    const rights = Object.values(DECLARED_KINDS);
    if (!rights.some((right) => hasRight(caller, right))) requireRight(caller, rights[0]!, 'A declaration');
    if (!NAME.test(name))
      throw new ToolError('REQUEST_INVALID', { message: 'name must be 1 to 64 letters, digits, "_" and "-"' });
    for (const id of Object.keys(body.owned)) requireRight(caller, rightFor(id), `Declaring ${id}`);
    const mayChange = (id: string) => hasRight(caller, rightFor(id));
    const made = await this.declarations.put(caller.tenantId, { ...body, name }, mayChange);
    return { ...made, owned: visible(caller, made) };
  }
}

const rightFor = (id: string): Right => DECLARED_KINDS[id.slice(0, id.indexOf('/')) as keyof typeof DECLARED_KINDS];

const visible = (caller: Principal, { owned }: FleetDeclaration): Record<string, string> =>
  Object.fromEntries(Object.entries(owned).filter(([id]) => hasRight(caller, rightFor(id))));
