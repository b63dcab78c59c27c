import { IsIn, IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import { isJsonObject, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import { formatTool, TOOL_FORMATS, type ToolFormat } from '@toolfleet/engine';
import { SCHEMA_STYLES, type SchemaStyle } from '@toolfleet/schema';
import { Body, Controller, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { bodyObject, readBatchBody, readerFor } from './request-body.js';
import { Caller } from '../auth/auth.guard.js';
import { BatchCalls, ToolCalls } from '../tool-calls.js';
import { ToolList } from '../catalog/tool-list.js';
import { HttpCalls, withHeaderFields, type HttpRequest } from './http-call.js';
import { ToolInventory } from '../catalog/tool-inventory.js';

/** Body of `POST /api/v1/tools/:name/execute`. */
type ExecuteToolBody = CallFieldsOn<'http'> & { arguments: JsonObject };

/** @throws ToolError REQUEST_INVALID */
function readExecuteToolBody(body: unknown): ExecuteToolBody {
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

/** Query of `GET /api/v1/tools`. */
class ListToolsQuery {
  @IsOptional()
  @IsString()
  @MaxLength(64)
  category?: string;

  /** Page size; absent: everything. */
  @IsOptional()
  @Matches(/^[1-9]\d{0,3}$/, { message: 'limit must be an integer from 1 to 9999' })
  limit?: string;

  /** Opaque value from `Link: rel="next"` of the previous page. */
  @IsOptional()
  @IsString()
  @MaxLength(200)
  cursor?: string;

  @IsOptional()
  @IsIn(TOOL_FORMATS)
  format?: ToolFormat;

  /** `inline`: schemas without `$defs`. */
  @IsOptional()
  @IsIn(SCHEMA_STYLES)
  schema_style?: SchemaStyle;

  /** Accepted and ignored: dangerous tools are always left out. */
  @IsOptional()
  @IsString()
  exclude_dangerous?: string;
}

/** Query of `GET /api/v1/tools/:name`. */
class FormatQuery {
  @IsOptional()
  @IsIn(TOOL_FORMATS)
  format?: ToolFormat;

  @IsOptional()
  @IsIn(SCHEMA_STYLES)
  schema_style?: SchemaStyle;
}

const readQuery = readerFor(ListToolsQuery);
const readFormat = readerFor(FormatQuery);

/** The Tools API. */
@Controller('api/v1/tools')
export class ToolsController {
  constructor(
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly batches: BatchCalls,
    private readonly http: HttpCalls,
  ) {}

  /** The tools a caller may call, as an array; with `limit` one page, and `Link: rel="next"` to the next. */
  @Get()
  async all(
    @Caller() caller: Principal,
    @Query() query: unknown,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { category, limit, cursor, format = 'native', schema_style: style } = readQuery(query);
    const page = await this.list.page(caller, {
      category,
      limit: limit === undefined ? undefined : Number(limit),
      cursor,
    });
    if (page.next !== undefined) {
      const url = new URL(request.url, 'http://gateway');
      url.searchParams.set('cursor', page.next);
      void reply.header('Link', `<${url.pathname}${url.search}>; rel="next"`);
    }
    if (page.stale) void reply.header('Warning', '110 toolfleet "Response is stale"');
    return page.tools.map((tool) => formatTool(tool, format, style));
  }

  /** One tool in the requested format. */
  @Get(':name')
  async one(@Caller() caller: Principal, @Param('name') name: string, @Query() query: unknown) {
    const { format = 'native', schema_style: style } = readFormat(query);
    return formatTool(await this.list.one(caller, name), format, style);
  }

  /** Tool calls in the shapes of `readBatch`; an array, or an object with `calls`. */
  @Post('batch-execute')
  @HttpCode(200)
  batch(@Body() body: unknown, @Req() request: HttpRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const { calls, fields } = readBatchBody(body);
    const shared = withHeaderFields(request, fields);
    return this.http.traced(request, () =>
      this.batches.records(calls, shared, this.http.batchSender(request, reply), (name, args, own) =>
        this.http.toCallRequest(request, reply, name, args, own),
      ),
    );
  }

  /** Runs one call. `mode: async` answers 202 with the location of the call; a dry run is always answered at once. */
  @Post(':name/execute')
  @HttpCode(200)
  async execute(
    @Param('name') name: string,
    @Body() body: unknown,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const fields = withHeaderFields(request, readExecuteToolBody(body));
    const call = this.http.toCallRequest(request, reply, name, fields.arguments, fields);
    if (fields.mode === 'async' && !fields.dry_run) {
      const accepted = await this.http.traced(request, () => this.calls.accept(call));
      void reply.status(202).header('Location', `/api/v1/calls/${accepted.call_id}`);
      return accepted;
    }
    const outcome = await this.http.traced(request, () => this.calls.run(call));
    if (outcome.replayed) void reply.header('X-Idempotency-Cached', 'true');
    return outcome.body;
  }
}

/** Tools with all properties, for operators' views. `api/v1/tools` lists the tools to call. */
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
