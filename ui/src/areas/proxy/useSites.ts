import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { backends, certificates, domains, routingRules, servers } from '../../api/resources'
import type { Backend, Certificate, Domain, Server } from '../../api/types'
import { grouped } from '../../kit/list/list-logic'
import { certificateOf, type Standing, standingOf } from '../certificates/standing'
import { type Health, type Live, useLive } from './health'

const none: never[] = []

/** All backends, and their servers by backend. */
export function useBackends() {
  const { data: all = none as Backend[] } = useQuery({ queryKey: [backends.kind], queryFn: backends.list })
  const { data: machines = none as Server[] } = useQuery({ queryKey: [servers.kind], queryFn: servers.list })
  return useMemo(() => {
    const of = grouped(machines, (server) => server.backend_id)
    return {
      all,
      byId: new Map(all.map((backend) => [backend.id, backend])),
      serversOf: (id: string): readonly Server[] => of.get(id) ?? none,
    }
  }, [all, machines])
}

export function useDomains() {
  const { data = none as Domain[] } = useQuery({ queryKey: [domains.kind], queryFn: domains.list })
  return useMemo(() => ({ all: data, byId: new Map(data.map((domain) => [domain.id, domain])) }), [data])
}

/** What uses each backend and breaks without it. */
export function useBackendUsers() {
  const { all } = useDomains()
  const { data: rules = none } = useQuery({ queryKey: [routingRules.kind], queryFn: routingRules.list })
  return useMemo(
    () => ({
      domains: grouped(all, ({ backend_id }) => backend_id),
      rules: grouped(rules, ({ backend_id }) => backend_id),
    }),
    [all, rules],
  )
}

/** A domain with everything that its visitors depend on. */
export interface Site extends Domain {
  backend: Backend | undefined
  health: Health
  certificate: Certificate | undefined
  standing: Standing
  routes: number
}

export function useSites(): { join: (rows: Domain[]) => Site[]; live: Live } {
  const { byId, serversOf } = useBackends()
  const { data: shown = none as Certificate[] } = useQuery({
    queryKey: [certificates.kind],
    queryFn: certificates.list,
  })
  const { data: rules = none } = useQuery({ queryKey: [routingRules.kind], queryFn: routingRules.list })
  const live = useLive()
  return useMemo(() => {
    const routes = grouped(rules, ({ domain_id }) => domain_id)
    const site = (row: Domain): Site => {
      const backend = byId.get(row.backend_id)
      const certificate = certificateOf(row, shown)
      return {
        ...row,
        backend,
        health: backend ? live.healthOf(backend, serversOf(backend.id)) : 'unknown',
        certificate,
        standing: standingOf(certificate),
        routes: routes.get(row.id)?.length ?? 0,
      }
    }
    return { join: (rows) => rows.map(site), live }
  }, [byId, serversOf, shown, rules, live])
}
