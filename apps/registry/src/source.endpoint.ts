import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import {
  SOURCE_LIST,
  SOURCE_REFRESH,
  type SourceListReply,
  type SourceListRequest,
  type SourceRefresh,
  type SourceRefreshReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { FleetSources } from './sources/fleet-sources.js';
import { SourceStatuses } from './sources/source-statuses.js';

/** `registry.source.*`; the gateway admits administrators only, each to the sources of its tenant. */
@Controller()
export class SourceEndpoint {
  constructor(
    private readonly sources: FleetSources,
    private readonly statuses: SourceStatuses,
  ) {}

  @Endpoint(SUBJECTS.sourceList, { schema: SOURCE_LIST })
  async list(query: SourceListRequest | null | undefined): Promise<SourceListReply> {
    return { sources: await this.statuses.list(query ?? {}) };
  }

  /** @throws ToolError NOT_FOUND; REQUEST_INVALID for sources that cannot be looked at */
  @Endpoint(SUBJECTS.sourceRefresh, { schema: SOURCE_REFRESH })
  async refresh({ source }: SourceRefresh): Promise<SourceRefreshReply> {
    await this.sources.refresh(source);
    const [status] = await this.statuses.list({ source });
    if (!status) throw new ToolError('NOT_FOUND', { message: `No source '${source.kind}/${source.name}'` });
    return status;
  }
}
