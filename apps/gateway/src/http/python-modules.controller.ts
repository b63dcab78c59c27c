import { Body, Controller, Get, Param, Put } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { IsArray, IsString } from 'class-validator';
import { AdminOnly, Caller } from '../server/guards.js';
import { requireOperator } from '@toolfleet/access';
import { PythonModules } from '@toolfleet/engine-adapters';
import { readerFor } from '../server/request-body.js';

/** Body of `PUT /api/v1/python/modules/:level`. */
class ModulesBody {
  @IsArray()
  @IsString({ each: true })
  modules!: string[];
}

const readBody = readerFor(ModulesBody);

/** Modules that Python runs may import in addition. They apply to all tenants, so only operators change them. */
@AdminOnly()
@Controller('api/v1/python/modules')
export class PythonModulesController {
  constructor(private readonly modules: PythonModules) {}

  @Get()
  list() {
    return this.modules.list();
  }

  @Put(':level')
  async replace(@Caller() caller: Principal, @Param('level') level: string, @Body() raw: unknown) {
    requireOperator(caller, 'Changing the modules of Python runs');
    await this.modules.replace(level, readBody(raw).modules, caller);
    return this.modules.list();
  }
}
