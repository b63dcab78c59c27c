import { IsIn, IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import { isJsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import { readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import { TOOL_FORMATS, type ToolFormat } from '@toolfleet/engine';
import { bodyObject } from './dto.pipe.js';

/** Body of `POST /api/v1/tools/:name/execute`. */
export type ExecuteToolBody = CallFieldsOn<'http'> & { arguments: JsonObject };

/** @throws ToolError REQUEST_INVALID */
export function readExecuteToolBody(body: unknown): ExecuteToolBody {
  const source = bodyObject(body);
  const fields = readCallFields(source, 'http', ['arguments']);
  if (!isJsonObject(source.arguments)) {
    const reason = 'arguments is required and must be an object';
    throw new ToolError('REQUEST_INVALID', {
      message: `Invalid request: ${reason}`,
      details: { fields: ['arguments'], reasons: [reason] },
    });
  }
  return { ...fields, arguments: source.arguments };
}

/** Body of `POST /api/v1/tools/batch-execute`: an array of calls, or an object with `calls` (OpenAI: `tool_calls`) and fields for all. */
export interface BatchBody {
  /** Read by the engine. */
  calls: unknown;
  fields: CallFieldsOn<'http-batch'>;
}

/** @throws ToolError REQUEST_INVALID */
export function readBatchBody(body: unknown): BatchBody {
  if (Array.isArray(body)) return { calls: body, fields: {} };
  const source = bodyObject(body);
  const fields = readCallFields(source, 'http-batch', ['calls', 'tool_calls']);
  if (source.calls !== undefined && source.tool_calls !== undefined)
    throw new ToolError('REQUEST_INVALID', { message: "Send either 'calls' or 'tool_calls'" });
  return { calls: source.calls ?? source.tool_calls, fields };
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
