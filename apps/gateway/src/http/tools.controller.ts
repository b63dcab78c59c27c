import { Body, Controller, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import { formatTool } from '@toolfleet/engine';
import type { FastifyReply } from 'fastify';
import { Caller } from '../auth/auth.guard.js';
import { BatchCalls } from './batch-calls.js';
import { ToolCalls } from '../async/tool-calls.js';
import { ToolList } from '../catalog/tool-list.js';
import { readerFor } from './dto.pipe.js';
import { HttpCalls, withHeaderKey, type HttpRequest } from './http-call.js';
import { FormatQuery, ListToolsQuery, readBatchBody, readExecuteToolBody } from './tools.dto.js';

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
    const { calls, fields } = readBatchBody(body);
    const shared = withHeaderKey(request, fields);
    return this.http.traced(request, () =>
      this.batches.run(calls, shared, this.http.senderOf(request, reply), (name, args, own) =>
        this.http.requestOf(request, reply, name, args, own),
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
    const fields = withHeaderKey(request, readExecuteToolBody(body));
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
