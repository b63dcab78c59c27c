import type { MicroUsd } from '@toolfleet/contracts';
import type { SpendReply } from '@toolfleet/contracts/budget';
import type { CallerGrant } from './tool-caller.js';

/** What one step may cost at most, or did cost. */
export interface SliceAmount {
  /** Id of the slice, unique within its call. */
  slice: string;
  tokens: number;
  microUsd: MicroUsd;
}

/** Why a slice was not granted. */
export type SliceRefusal = Omit<Extract<SpendReply, { held: false }>, 'held'>;

/** Slices of the budgets of a call, for a tool that spends as it goes. Injected by type. */
export abstract class Spending {
  /**
   * Holds a slice. Undefined when it is held. It is not stopped by the signal of the grant, so that its answer is never lost.
   * @throws ToolError BUDGET_UNAVAILABLE and what the transport fails with: nothing may be spent then
   */
  abstract hold(amount: SliceAmount, grant: CallerGrant): Promise<SliceRefusal | undefined>;
  /** Charges what a slice did cost; never throws. One that cannot be settled is charged in full when its lease ends. */
  abstract settle(amount: SliceAmount, grant: CallerGrant): Promise<void>;
  /** Gives a slice back of which nothing was spent; never throws. */
  abstract release(slice: string, grant: CallerGrant): Promise<void>;
}
