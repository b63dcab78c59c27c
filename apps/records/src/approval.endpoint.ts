import type { ServiceHost } from '@toolfleet/service';
import { endpointsOf } from '@toolfleet/service/nats';
import type { RecordedCallStore } from './call-store.js';

const unavailable = 'The store of approvals is unavailable; retry later';

/** `records.approval.*` and `records.grant.use`: calls that people decide on. Every answer comes after the commit. */
export function approvalEndpoints({ approvals, bodies, grants }: RecordedCallStore, { clock, faults }: ServiceHost) {
  return endpointsOf(
    {
      'records.approval.ask': (asked) => {
        if (!bodies.isOn)
          faults.set('secret RECORDS_SECRET_KEY', [
            'is not set: calls that need an approval are refused, because their arguments cannot be sealed',
          ]);
        return approvals.ask(asked, clock.now());
      },
      'records.approval.show': ({ call_id, with_arguments = false, of_call = false }) =>
        approvals.show(call_id, with_arguments, of_call),
      'records.approval.list': (query) => approvals.list(query),
      'records.approval.decide': (decision) => approvals.decide(decision, clock.now()),
      'records.approval.begin': ({ call_id }) => approvals.begin(call_id, clock.now()),
      'records.approval.end': (ended) => approvals.end(ended, clock.now()),
      'records.approval.due': async ({ limit }) => ({ approvals: await approvals.due(clock.now(), limit) }),
      'records.grant.use': (asked) => grants.use(asked, clock.now()),
    },
    { unavailable },
  );
}
