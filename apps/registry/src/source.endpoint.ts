import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import type { SourceListReply, SourceRefreshReply } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { readSourceList, readSourceRefresh } from './messages.js';
import { FleetSources } from './sources/fleet-sources.js';
import { SourceStatuses } from './sources/source-statuses.js';

/** `registry.source.*`; the gateway admits administrators only, each to the sources of its tenant. */
@Controller()
export class SourceEndpoint {
  constructor(
    private readonly sources: FleetSources,
    private readonly statuses: SourceStatuses,
  ) {}

  @Endpoint(SUBJECTS.sourceList)
  async list(body: unknown): Promise<SourceListReply> {
    return { sources: await this.statuses.list(readSourceList(body)) };
  }

  /** @throws ToolError NOT_FOUND; REQUEST_INVALID for sources that cannot be looked at */
  @Endpoint(SUBJECTS.sourceRefresh)
  async refresh(body: unknown): Promise<SourceRefreshReply> {
    const { source } = readSourceRefresh(body);
    await this.sources.refresh(source);
    const [status] = await this.statuses.list({ source });
    if (!status) throw new ToolError('NOT_FOUND', { message: `No source '${source.kind}/${source.name}'` });
    return status;
  }
}
