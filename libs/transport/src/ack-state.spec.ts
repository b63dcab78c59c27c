import { describe, expect, it } from 'vitest';
import { advance, type AckEvent, type AckState } from './ack-state.js';

const sent: AckState = { kind: 'sent', fence: 1, acked: false };
const raising: AckState = { kind: 'raising', fence: 1, acked: false };
const late: AckState = { kind: 'raising', fence: 1, acked: true };
const accepted: AckState = { kind: 'held', fence: 1, acked: true };
const claimed: AckState = { kind: 'held', fence: 1, acked: false };
const again: AckState = { kind: 'sent', fence: 2, acked: false };
const ended: AckState = { kind: 'ended', fence: 1, acked: false };

describe('a call of the ack-first hop', () => {
  it.each<[string, AckState, AckEvent, AckState, AckState?]>([
    // what happens, from, event, to with a journal, to without one
    ['is accepted', sent, 'acknowledged', accepted],
    ['is overdue once', sent, 'overdue', raising],
    ['is not overdue while it is held', accepted, 'overdue', accepted],
    ['is sent again with the raised fence', raising, { raised: 2 }, again],
    ['is acknowledged while its fence is raised', raising, 'acknowledged', late],
    ['is sent again to a member whose claim is refused now', late, { raised: 2 }, again, accepted],
    ['is taken from a member that holds it and reports no more', accepted, 'silent', raising],
    ['is not silent before it is held', sent, 'silent', sent],
    ['waits for the member that claimed it', raising, 'claimed', claimed],
    ['is accepted by the member that claimed it', claimed, 'acknowledged', accepted],
    ['tries to raise its fence again', raising, 'not raised', sent],
    ['needs no higher fence once it is accepted', late, 'not raised', accepted],
    ['ignores a fence that comes too late', accepted, { raised: 2 }, accepted],
    ['ends', raising, 'ended', ended],
    ['stays ended', ended, { raised: 2 }, ended],
  ])('%s', (_, from, event, journalled, plain = journalled) => {
    expect(advance(from, event, true)).toEqual(journalled);
    expect(advance(from, event, false)).toEqual(plain);
  });
});
