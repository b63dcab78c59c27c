import { Body, Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { IsBoolean, IsOptional, IsString, MaxLength, MinLength } from 'class-validator';
import { AdminOnly, Caller } from '../server/guards.js';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Purges, type PurgeRecord } from '@toolfleet/records';
import { readerFor } from '../server/request-body.js';

/** Body of `POST /api/v1/purges`. */
class PurgeBody {
  @IsString()
  @MinLength(1)
  @MaxLength(200)
  tenant_id!: string;

  /** Only the data of this user. */
  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(200)
  user_id?: string;

  /** Only count. */
  @IsOptional()
  @IsBoolean()
  dry_run?: boolean;

  /** `<tenant_id>` or `<tenant_id>/<user_id>`; required unless it is a dry run. */
  @IsOptional()
  @IsString()
  confirm?: string;
}

const STORE = 'The store of purges';
const readBody = readerFor(PurgeBody);

/** Removes all data of a tenant (operators) or of one of its users (its administrators). */
@AdminOnly()
@Controller('api/v1/purges')
export class PurgesController {
  constructor(private readonly purges: Purges) {}

  @Post()
  @HttpCode(202)
  async request(@Caller() caller: Principal, @Body() raw: unknown) {
    const { tenant_id: tenantId, user_id: userId, dry_run: dryRun = false, confirm } = readBody(raw);
    return toBody(await orUnavailable(STORE, this.purges.request(caller, { tenantId, userId, dryRun, confirm })));
  }

  @Get(':id')
  async get(@Caller() caller: Principal, @Param('id') id: string) {
    return toBody(await orUnavailable(STORE, this.purges.get(caller, id)));
  }
}

function toBody(purge: PurgeRecord) {
  return {
    id: purge.id,
    tenant_id: purge.tenantId,
    user_id: purge.userId ?? null,
    dry_run: purge.dryRun,
    state: purge.state,
    pseudonym: purge.pseudonym,
    requested_by: purge.requestedBy,
    requested_at: new Date(purge.requestedAt).toISOString(),
    finished_at: purge.finishedAt === undefined ? null : new Date(purge.finishedAt).toISOString(),
    steps_done: purge.done,
    counts: purge.counts,
    remaining: purge.remaining,
    error: purge.error ?? null,
  };
}
