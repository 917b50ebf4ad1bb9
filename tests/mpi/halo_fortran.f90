! SPDX-License-Identifier: BSD-3-Clause
! tests/mpi/halo_fortran.f90: hk_halo.f90 with wrong arguments on one rank, and the procedures that
! no example calls.
program halo_fortran
  use mpi
  use hk_halo
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, ranks, ierr, cart, n
  logical :: good, every

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  good = .true.
  call short_arrays()
  call ring()
  call MPI_Allreduce(good, every, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a, a)', merge('PASS', 'FAIL', every), ' halo_fortran'
  call MPI_Finalize(ierr)

contains

  subroutine check(what, ok)
    character(len=*), intent(in) :: what
    logical, intent(in) :: ok
    if (.not. ok) print '(a, i0, 4a)', 'rank ', rank, ': ', what, ': ', hk_halo_error()
    good = good .and. ok
  end subroutine

  ! Only on rank 0.
  subroutine short_arrays()
    integer(c_long_long) :: column(8)
    integer(c_int) :: local(8), ghosts
    double precision, target :: u(6)
    type(hk_halo_csr_t) :: plan
    type(hk_halo_t) :: h
    integer :: interior(1)

    column = rank + 1
    local = -1
    call hk_halo_csr(MPI_COMM_WORLD, 1, column, local(1:merge(7, 8, rank == 0)), ghosts, plan, ierr)
    call check('local is short', index(hk_halo_error(), 'rank 0: local') == 1 .and. ierr < 0)
    call check('it was written', all(local == -1))
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., cart, ierr)
    interior = 4
    call hk_halo_cart(cart, interior(1:merge(0, 1, rank == 0)), [1], HK_HALO_STAR, [c_loc(u)], &
                      MPI_DOUBLE_PRECISION, h, ierr)
    call check('interior is short', index(hk_halo_error(), 'rank 0: interior') == 1 .and. ierr < 0)
    call MPI_Comm_free(cart, ierr)
  end subroutine

  subroutine ring()
    double precision, target, volatile :: out, in
    type(hk_edge) :: edge(2)
    type(hk_halo_t) :: h
    integer(c_int) :: which(2)
    logical :: ready

    edge(1)%peer = mod(rank + 1, ranks)
    edge(1)%tag = 1
    edge(1)%send = c_loc(out)
    edge(1)%send_count = 1
    edge(1)%send_type = MPI_DOUBLE_PRECISION
    edge(2)%peer = mod(rank + ranks - 1, ranks)
    edge(2)%tag = 1
    edge(2)%recv = c_loc(in)
    edge(2)%recv_count = 1
    edge(2)%recv_type = MPI_DOUBLE_PRECISION
    call hk_halo_setup(MPI_COMM_WORLD, edge, h, ierr)
    call check('set-up', ierr == 0)
    out = rank
    in = -1
    call hk_halo_put(h, ierr)
    which = 0
    call hk_halo_wait_some(h, which(1:1), n, ierr)
    call check('an array that is too short', ierr < 0 .and. n == 0 .and. which(2) == 0)
    call hk_halo_wait_some(h, which, n, ierr)
    call check('wait_some', ierr == 0 .and. n == 1 .and. which(1) == 2)
    call check('what came', abs(in - edge(2)%peer) < 0.5d0)
    ready = hk_halo_ready(h, 2, ierr)
    call check('ready', ready .and. ierr == 0)
    ready = hk_halo_ready(h, 3, ierr)
    call check('no such edge', .not. ready .and. ierr < 0)
    call check('the transport', any(hk_halo_transport(h, edge(1)%peer) == &
      [character(len=9) :: 'worker', 'mpi', 'self']))
    call check('no neighbour', hk_halo_transport(h, ranks + 7) == '')
    call hk_halo_wait(h, ierr)
    call check('wait', ierr == 0)
    call hk_halo_free(h, ierr)
    call check('free', ierr == 0)
  end subroutine
end program
