import type { ComponentType } from 'react';
import { BreakersView } from './views/breakers.js';
import { BudgetsView } from './views/budgets.js';
import { CallsView } from './views/calls.js';
import { KeysView } from './views/keys.js';
import { QuarantineView, WaitingApprovals } from './views/quarantine.js';
import { QueuesView } from './views/queues.js';
import { ToolsView } from './views/tools.js';

/** One view of the console. */
export interface View {
  /** In the address. */
  name: string;
  title: string;
  Component: ComponentType<{ item: string | undefined }>;
  /** Beside its title in the navigation: what waits there. */
  Mark?: ComponentType;
  adminOnly?: boolean;
  whyAdmin?: string;
}

/** Every view, in the order of the navigation. The gateway checks every request again; this only decides what is offered. */
export const VIEWS: readonly View[] = [
  { name: 'tools', title: 'Tools', Component: ToolsView },
  { name: 'calls', title: 'Calls', Component: CallsView },
  {
    name: 'queues',
    title: 'Queues and workers',
    Component: QueuesView,
    adminOnly: true,
    whyAdmin: 'It shows the work of every tenant.',
  },
  { name: 'breakers', title: 'Breakers and limits', Component: BreakersView },
  { name: 'budgets', title: 'Budgets and cost', Component: BudgetsView },
  {
    name: 'quarantine',
    title: 'Approvals',
    Component: QuarantineView,
    Mark: WaitingApprovals,
    adminOnly: true,
    whyAdmin: 'Approving a changed tool lets every tenant call it.',
  },
  {
    name: 'keys',
    title: 'API keys',
    Component: KeysView,
    adminOnly: true,
    whyAdmin: 'It makes and revokes the keys of every tenant.',
  },
];
