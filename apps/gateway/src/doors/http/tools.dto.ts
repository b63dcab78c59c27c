import { applyDecorators } from '@nestjs/common';
import {
  IsBoolean,
  IsIn,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
  MinLength,
} from 'class-validator';
import type { JsonObject } from '@toolfleet/contracts';
import { WITHOUT_CONTROLS } from '../../calls/call-ids.js';
import { TOOL_FORMATS, type ToolFormat } from '@toolfleet/engine';

/** Longest caller-chosen id (session, request, agent, task). */
const ID_LENGTH = 255;

/** An id of the caller's choice. */
const OptionalId = (): PropertyDecorator =>
  applyDecorators(
    IsOptional(),
    IsString(),
    MinLength(1),
    MaxLength(ID_LENGTH),
    Matches(WITHOUT_CONTROLS, { message: '$property must not contain control characters' }),
  );

/** Whose call it is and which: ids that a call and a batch of calls may carry. */
class CallIds {
  @OptionalId()
  session_id?: string;

  @OptionalId()
  request_id?: string;

  @OptionalId()
  agent_id?: string;

  @OptionalId()
  task_id?: string;

  /** In a batch each call gets this key with its place, unless it has one of its own. */
  @OptionalId()
  idempotency_key?: string;
}

/** Fields of a call that every plain HTTP body may carry beside its arguments. */
export class CallFields extends CallIds {
  /** Longest attempt in milliseconds. */
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(120_000)
  timeout_ms?: number;

  @IsOptional()
  @IsIn(['sync', 'async'])
  mode?: 'sync' | 'async';

  @IsOptional()
  @IsBoolean()
  dry_run?: boolean;

  @IsOptional()
  @IsBoolean()
  no_retry?: boolean;
}

/** Body of `POST /api/v1/tools/:name/execute`. */
export class ExecuteToolBody extends CallFields {
  @IsObject({ message: 'arguments is required and must be an object' })
  arguments!: JsonObject;
}

/** Query of `GET /api/v1/tools`. */
export class ListToolsQuery {
  @IsOptional()
  @IsString()
  @MaxLength(64)
  category?: string;

  /** Page size; absent: everything. */
  @IsOptional()
  @Matches(/^[1-9]\d{0,3}$/, { message: 'limit must be a whole number from 1 to 9999' })
  limit?: string;

  /** Opaque: the value of the `Link: rel="next"` of the page before. */
  @IsOptional()
  @IsString()
  @MaxLength(200)
  cursor?: string;

  @IsOptional()
  @IsIn(TOOL_FORMATS)
  format?: ToolFormat;

  /** Accepted and ignored: dangerous tools are always left out. */
  @IsOptional()
  @IsString()
  exclude_dangerous?: string;
}

/** Query of `GET /api/v1/tools/:name`. */
export class FormatQuery {
  @IsOptional()
  @IsIn(TOOL_FORMATS)
  format?: ToolFormat;
}

/** Body of `POST /api/v1/tools/batch-execute` when it is not a bare array. The items are read by the engine. */
export class BatchBody extends CallIds {
  @IsOptional()
  calls?: unknown;

  /** OpenAI's name for the same. */
  @IsOptional()
  tool_calls?: unknown;
}
