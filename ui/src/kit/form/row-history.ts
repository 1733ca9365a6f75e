import { type ComponentType, createContext } from 'react'
import type { Past } from '../../api/resource'

export interface RowHistoryProps {
  kind: string
  id: string
  past: Past<unknown>
}

/** Provides the component for a row's history, which is in an area and cannot be imported here. */
export const RowHistoryContext = createContext<ComponentType<RowHistoryProps> | null>(null)
