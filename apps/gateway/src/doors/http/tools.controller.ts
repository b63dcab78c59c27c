import { Body, Controller, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { formatTool } from '@toolfleet/engine';
import type { FastifyReply } from 'fastify';
import { Caller } from '../../auth/auth.guard.js';
import { BatchCalls } from '../../calls/batch-calls.js';
import { ToolCalls } from '../../calls/tool-calls.js';
import { ToolList } from '../../catalog/tool-list.js';
import { readerFor } from './dto.pipe.js';
import { HttpCalls, type HttpRequest } from './http-call.js';
import { BatchBody, ExecuteToolBody, FormatQuery, ListToolsQuery, type CallFields } from './tools.dto.js';

const readQuery = readerFor(ListToolsQuery);
const readFormat = readerFor(FormatQuery);
const readBody = readerFor(ExecuteToolBody);

/** The Tools API. */
@Controller('api/v1/tools')
export class ToolsController {
  constructor(
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly batches: BatchCalls,
    private readonly http: HttpCalls,
  ) {}

  /** The tools a caller may call, as a bare array; with `limit` a page and `Link: rel="next"`. */
  @Get()
  async all(
    @Caller() caller: Principal,
    @Query() query: unknown,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { category, limit, cursor, format } = readQuery(query);
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
    return page.tools.map((tool) => formatTool(tool, format ?? 'native'));
  }

  /** One tool in the format asked for. */
  @Get(':name')
  async one(@Caller() caller: Principal, @Param('name') name: string, @Query() query: unknown) {
    return formatTool(await this.list.one(caller, name), readFormat(query).format ?? 'native');
  }

  /** OpenAI-format tool calls or `{name, arguments}`; an array, or an object with `calls`. */
  @Post('batch-execute')
  @HttpCode(200)
  batch(@Body() body: unknown, @Req() request: HttpRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const { items, fields } = readBatchBody(body);
    return this.http.traced(request, () =>
      this.batches.run(items, this.http.senderOf(request, reply), (name, args) =>
        this.http.requestOf(request, reply, name, args, fields),
      ),
    );
  }

  /** One call. `mode: async` answers 202 and where the call can be read; a dry run is answered at once. */
  @Post(':name/execute')
  @HttpCode(200)
  async execute(
    @Param('name') name: string,
    @Body() body: unknown,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const fields = readBody(body);
    const call = this.http.requestOf(request, reply, name, fields.arguments, fields);
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

const readBatchFields = readerFor(BatchBody);

function readBatchBody(body: unknown): { items: unknown; fields: CallFields } {
  if (Array.isArray(body)) return { items: body, fields: {} };
  const { calls, tool_calls: toolCalls, ...fields } = readBatchFields(body);
  if (calls !== undefined && toolCalls !== undefined)
    throw new ToolError('REQUEST_INVALID', { message: "Send either 'calls' or 'tool_calls'" });
  return { items: calls ?? toolCalls, fields };
}
