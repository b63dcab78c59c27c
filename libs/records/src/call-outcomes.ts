import { CATALOGUE } from '@toolfleet/contracts';
import type { CallOutcomes } from '@toolfleet/contracts/fleet';
import type { AuditRecord } from '@toolfleet/engine';

const NOT_SENT: CallOutcomes = { transport: 'not_sent', protocol: 'none', tool: 'none' };
const UNKNOWN: CallOutcomes = { transport: 'unknown', protocol: 'none', tool: 'none' };
const UNREACHED: CallOutcomes = { transport: 'failed', protocol: 'none', tool: 'none' };
const UNREADABLE: CallOutcomes = { transport: 'delivered', protocol: 'failed', tool: 'none' };
const SUCCEEDED: CallOutcomes = { transport: 'delivered', protocol: 'ok', tool: 'ok' };
const FAILED: CallOutcomes = { transport: 'delivered', protocol: 'ok', tool: 'failed' };

/**
 * How far a call got: whether it reached its executor or upstream, whether that answered as its protocol demands, and whether the tool
 * succeeded. An answer in place of the tool (a cached result, a replay) was not sent. Of a failure that a substitute
 * replaced, the outcomes are the failure's.
 */
export function toOutcomes({ result, attempts, code, isExecutorFault }: AuditRecord): CallOutcomes {
  const failure = result?.failure ?? result?.replaced;
  const failed = failure?.code ?? code;
  // Also of a call that goes on after its gateway was lost, and began before.
  if (failed === 'OUTCOME_UNKNOWN') return UNKNOWN;
  if (attempts === 0 || result?.replayOf !== undefined || result?.provenance === 'cache') return NOT_SENT;
  if (failed === undefined) return SUCCEEDED;
  if (failure?.facts?.begun === 'no' || failure?.facts?.noResponders) return UNREACHED;
  if (failed === 'NETWORK_ERROR' || failed === 'EGRESS_REFUSED') return failure?.facts?.delivered ? UNKNOWN : UNREACHED;
  if (failed === 'RESULT_TOO_LARGE' || failed === 'OUTPUT_LIMIT') return UNREADABLE;
  const { leavesOutcomeOpen, class: failureClass, blame } = CATALOGUE[failed];
  if (leavesOutcomeOpen || failureClass === 'timeout' || failed === 'WORKER_LOST') return UNKNOWN;
  return isExecutorFault || blame === 'executor' || blame === 'fleet' ? UNREACHED : FAILED;
}
