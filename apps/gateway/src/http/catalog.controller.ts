import { Controller, Get, Param, Res } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import { Caller } from '../auth/auth.guard.js';
import { ToolInventory } from '../catalog/tool-inventory.js';

/** Tools with every property, for operators' views; to call them, `api/v1/tools` is the list. */
@Controller('api/v1/catalog')
export class CatalogController {
  constructor(private readonly inventory: ToolInventory) {}

  @Get()
  async all(@Caller() caller: Principal, @Res({ passthrough: true }) reply: FastifyReply) {
    const { tools, stale } = await this.inventory.list(caller);
    if (stale) void reply.header('Warning', '110 toolfleet "Response is stale"');
    return tools;
  }

  @Get(':name')
  one(@Caller() caller: Principal, @Param('name') name: string) {
    return this.inventory.one(caller, name);
  }
}
