import {
  IsBoolean,
  IsIn,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
  MinLength,
} from 'class-validator';
import {
  type JsonObject,
  isJsonObject,
  ToolError,
  type CallBody,
  type Json,
  type Principal,
} from '@toolfleet/contracts';
import { SCHEMA_STYLES, type SchemaStyle } from '@toolfleet/schema';
import { Body, Controller, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import { readBatchBody } from '@toolfleet/engine/batch';
import type { CallFields } from '@toolfleet/contracts/call-fields';
import { formatTool, toolMetadata, ToolList, ToolSearch } from '@toolfleet/catalog';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { BatchCalls, ToolCalls } from '../calls/tool-calls.js';
import { readerFor, ToolsetQuery } from '../server/request-body.js';
import { HttpCalls, withHeaderFields, type HttpRequest } from './http-call.js';

/** Body of `POST /tools/execute` and one item of `/tools/batch-execute`. */
class ShannonExecuteBody {
  @IsString()
  @MinLength(1)
  @MaxLength(128)
  tool_name!: string;

  @IsObject({ message: 'parameters is required and must be an object' })
  parameters!: JsonObject;

  /** Of a public caller only `session_id` is used. */
  @IsOptional()
  @IsObject()
  session_context?: JsonObject;
}

/** Body of `POST /tools/select`. */
class SelectBody {
  @IsString()
  @MinLength(1)
  @MaxLength(10_000)
  task!: string;

  @IsOptional()
  @IsObject()
  context?: JsonObject;

  @IsOptional()
  @IsBoolean()
  exclude_dangerous?: boolean;

  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(8)
  max_tools?: number;
}

/** Query of the endpoints that return schemas. */
class SchemaQuery extends ToolsetQuery {
  @IsOptional()
  @IsIn(SCHEMA_STYLES)
  schema_style?: SchemaStyle;
}

/** Query of the list endpoints. */
class ShannonListQuery extends SchemaQuery {
  @IsOptional()
  @IsString()
  @MaxLength(64)
  category?: string;

  /** Accepted and ignored: dangerous tools are always left out. */
  @IsOptional()
  @IsString()
  exclude_dangerous?: string;
}

const readQuery = readerFor(ShannonListQuery);
const readSchemaQuery = readerFor(SchemaQuery);
const readExecute = readerFor(ShannonExecuteBody);
const readSelect = readerFor(SelectBody);
const DEFAULT_SELECTED = 2;

/** The endpoints of Shannon's tool service, with the authentication and limits of this gateway. */
@Controller('tools')
export class ShannonController {
  constructor(
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly batches: BatchCalls,
    private readonly search: ToolSearch,
    private readonly http: HttpCalls,
  ) {}

  @Get('list')
  async names(@Caller() caller: Principal, @Query() query: unknown): Promise<string[]> {
    return (await this.list.page(caller, { category: readQuery(query).category })).tools.map((tool) => tool.name);
  }

  @Get('categories')
  async categories(@Caller() caller: Principal): Promise<string[]> {
    return [...new Set((await this.list.all(caller)).tools.map((tool) => tool.category))].toSorted();
  }

  @Get('schemas')
  async schemas(@Caller() caller: Principal, @Query() query: unknown): Promise<JsonObject[]> {
    const { category, schema_style: style } = readQuery(query);
    const { tools } = await this.list.page(caller, { category });
    return tools.map((tool) => toSchema(formatTool(tool, 'native', style)));
  }

  @Get(':name/schema')
  async schema(@Caller() caller: Principal, @Param('name') name: string, @Query() query: unknown): Promise<JsonObject> {
    return toSchema(formatTool(await this.list.one(caller, name), 'native', readSchemaQuery(query).schema_style));
  }

  @Get(':name/metadata')
  async metadata(@Caller() caller: Principal, @Param('name') name: string): Promise<JsonObject> {
    return toolMetadata(await this.list.one(caller, name));
  }

  @Post('execute')
  @HttpCode(200)
  async execute(@Body() raw: unknown, @Req() request: HttpRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const body = readExecute(raw);
    const fields = withHeaderFields(request, readSession(body.session_context));
    const call = this.http.toCallRequest(request, reply, body.tool_name, body.parameters, fields);
    return shannonBody((await this.http.traced(request, () => this.calls.run(call))).body);
  }

  /**
   * An array of calls, or an object with `calls` and fields for all, in; an array in the same order out. An unknown tool is an item
   * with `success: false`.
   */
  @Post('batch-execute')
  @HttpCode(200)
  async batch(@Body() raw: unknown, @Req() request: HttpRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const { calls, fields } = readBatchBody(raw, 'http-batch');
    const shared = withHeaderFields(request, fields);
    return this.http.traced(request, () =>
      this.batches.run(
        calls,
        shared,
        this.http.batchSender(request, reply),
        (name, args, own, { session_context: session }) =>
          this.http.toCallRequest(request, reply, name, args, { ...own, ...readSession(session) }),
        shannonBody,
      ),
    );
  }

  @Post('select')
  @HttpCode(200)
  async select(@Caller() caller: Principal, @Body() raw: unknown) {
    const { task, max_tools: maxTools = DEFAULT_SELECTED } = readSelect(raw);
    const found = await this.search.rank(caller, task, maxTools);
    return {
      selected_tools: found.map(({ tool }) => tool.name),
      // Keyword search finds tools but no arguments.
      calls: found.map(({ tool }) => ({ tool_name: tool.name, parameters: {} })),
      provider_used: 'keyword',
    };
  }
}

function toSchema({ name, description, parameters }: JsonObject): JsonObject {
  return { name: name ?? null, description: description ?? null, parameters: parameters ?? null };
}

/** Of a public caller only `session_id` is used. @throws ToolError REQUEST_INVALID */
function readSession(context: Json | undefined): CallFields {
  if (context !== undefined && context !== null && !isJsonObject(context))
    throw new ToolError('REQUEST_INVALID', { message: 'session_context must be an object' });
  const id = context?.session_id;
  if (id === undefined || id === null) return {};
  if (typeof id !== 'string' || id === '')
    throw new ToolError('REQUEST_INVALID', { message: 'session_context.session_id must be a string' });
  return { session_id: id };
}

/** Shannon's form of a result, and the rich content, which Shannon does not have. */
function shannonBody({ success, output, text, error, metadata, execution_time_ms, content }: CallBody) {
  return { success, output, text, error, metadata, execution_time_ms, content };
}

/** `POST /mcp/mock`: the function endpoint of smoke tests, in local mode only. */
@Controller('mcp/mock')
export class MockFunctionController {
  @Post()
  @HttpCode(200)
  call(@Body() body: unknown) {
    if (!isJsonObject(body) || body.function !== 'echo') {
      throw new ToolError('REQUEST_INVALID', {
        message: "function must be 'echo'",
        details: { fields: ['function'] },
      });
    }
    return { ok: true, function: 'echo', echo: body.args ?? {} };
  }
}
