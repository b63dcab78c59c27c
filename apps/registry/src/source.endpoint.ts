import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import {
  SOURCE_ALLOW,
  SOURCE_INSPECT,
  SOURCE_LIST,
  SOURCE_REFRESH,
  type SourceAllow,
  type SourceAllowReply,
  type SourceInspect,
  type SourceInspectReply,
  type SourceListReply,
  type SourceListRequest,
  type SourceRefresh,
  type SourceRefreshReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { AllowedEndpoints } from '@toolfleet/service';
import { FleetSources } from './sources/fleet-sources.js';
import { SourceInspector } from './sources/source-inspector.js';
import { SourceStatuses } from './sources/source-statuses.js';

/** `registry.source.*`; the gateway admits administrators only, each to the sources of its tenant. */
@Controller()
export class SourceEndpoint {
  constructor(
    private readonly sources: FleetSources,
    private readonly statuses: SourceStatuses,
    private readonly inspector: SourceInspector,
    private readonly allowedEndpoints: AllowedEndpoints,
  ) {}

  @Endpoint(SUBJECTS.sourceList, { schema: SOURCE_LIST })
  async list(query: SourceListRequest | null | undefined): Promise<SourceListReply> {
    return { sources: await this.statuses.list(query ?? {}) };
  }

  @Endpoint(SUBJECTS.sourceInspect, { schema: SOURCE_INSPECT })
  inspect(place: SourceInspect): Promise<SourceInspectReply> {
    return this.inspector.inspect(place);
  }

  /** The gateway admits operators of a local fleet only. @throws ToolError REQUEST_INVALID */
  @Endpoint(SUBJECTS.sourceAllow, { schema: SOURCE_ALLOW })
  async allow({ origins }: SourceAllow): Promise<SourceAllowReply> {
    return { origins: await this.allowedEndpoints.allow(origins) };
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
