import { Controller, Get, Param, Query, Res } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { type ResultPart, ResultReader } from '@toolfleet/results';
import { readerFor } from '../server/request-body.js';

/** Query of `GET /api/v1/results/:handle`. */
class PartQuery {
  @IsOptional()
  @IsString()
  @MaxLength(1_000)
  select?: string;

  @IsOptional()
  @Matches(/^\d{1,9}$/, { message: 'offset must be a non-negative integer' })
  offset?: string;

  @IsOptional()
  @Matches(/^[1-9]\d{0,5}$/, { message: 'limit must be an integer from 1 to 999999' })
  limit?: string;

  /** Session of the call whose result it is, if it had one. */
  @IsOptional()
  @IsString()
  @MaxLength(255)
  session_id?: string;
}

const readQuery = readerFor(PartQuery);

/** Kept results in parts. */
@Controller('api/v1/results')
export class ResultsController {
  constructor(private readonly results: ResultReader) {}

  @Get(':handle')
  async part(
    @Caller() principal: Principal,
    @Param('handle') handle: string,
    @Query() query: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ResultPart> {
    const { select, offset, limit, session_id: id } = readQuery(query);
    const session = id === undefined ? undefined : { id, userId: principal.userId };
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    return this.results.read({ principal, session, signal: gone.signal }, handle, {
      select,
      offset: offset === undefined ? undefined : Number(offset),
      limit: limit === undefined ? undefined : Number(limit),
    });
  }
}
