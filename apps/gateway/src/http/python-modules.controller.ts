import { Controller } from '@nestjs/common';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { PythonModules } from '@toolfleet/engine-adapters';
import { Input, Serves } from '../server/routes.js';

/** Modules that Python runs may import in addition. They apply to all tenants, so only operators change them. */
@Controller()
export class PythonModulesController {
  constructor(private readonly modules: PythonModules) {}

  @Serves('GET /api/v1/python/modules')
  list() {
    return this.modules.list();
  }

  @Serves('PUT /api/v1/python/modules/{level}')
  async replace(@Input() { path, body }: RouteInput<'PUT /api/v1/python/modules/{level}'>) {
    await this.modules.replace(path.level, body.modules);
    return this.modules.list();
  }
}
